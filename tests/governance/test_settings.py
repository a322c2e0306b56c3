import pytest
from django.db import connection


@pytest.mark.django_db
def test_every_connection_bounds_its_waits_and_speaks_utc():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('lock_timeout'), current_setting('statement_timeout'),"
            " current_setting('idle_in_transaction_session_timeout'), current_setting('TimeZone')"
        )
        assert cursor.fetchone() == ("2s", "15s", "15s", "UTC")


@pytest.mark.django_db(transaction=True)
def test_a_second_connection_sees_what_was_committed(on_other_connection):
    from django.contrib.auth.models import User

    User.objects.create_user("anna")
    assert on_other_connection(User.objects.count) == 1
