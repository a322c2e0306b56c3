"""The far ends of local grants and addresses, outside of the API: the path is the authority."""

from django.urls import path

from jobs.web.received_objects import serve_object

urlpatterns = [path("<str:signed>", serve_object)]
