from django.db import migrations

ONE_PERSON = """
-- Who acts, without the door: user:anna at the console is command:anna at a shell. The transitions
-- hold the same list (jobs.transitions.preconditions.PERSONS).
CREATE FUNCTION jobs_person(actor text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT nullif(regexp_replace(actor, '^(user|command):', ''), '')
$$;
"""
GUARD = """
CREATE OR REPLACE FUNCTION jobs_approval_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.decision = 'approved' AND EXISTS (
        SELECT 1 FROM jobs_job j WHERE j.id = NEW.job_id
           AND {approver} IN ({askers})
    ) THEN
        RAISE EXCEPTION 'nobody approves what they asked for themselves'
            USING ERRCODE = 'restrict_violation', CONSTRAINT = 'approval_by_second_person';
    END IF;
    RETURN NEW;
END $$;
"""
BY_PERSON = GUARD.format(
    approver="jobs_person(NEW.decided_by)",
    askers="jobs_person(j.submitted_by), jobs_person(j.requested_by),"
    " jobs_person(j.asked_again_by)",
)
BY_NAME = GUARD.format(
    approver="NEW.decided_by", askers="j.submitted_by, j.requested_by, j.asked_again_by"
)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0007_approvals_end")]

    operations = [
        migrations.RunSQL(ONE_PERSON, reverse_sql="DROP FUNCTION jobs_person(text)"),
        migrations.RunSQL(BY_PERSON, reverse_sql=BY_NAME),
    ]
