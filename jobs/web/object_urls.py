"""The far end of local upload grants, outside of the API: its authority is in the path."""

from django.urls import path

from jobs.web.received_objects import receive_object

urlpatterns = [path("<str:signed>", receive_object)]
