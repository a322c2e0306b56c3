"""The WSGI application that gunicorn serves."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from governance.web.client_certificates import ClientCertificates
from governance.web.unread_bodies import UnreadBodies

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "governance.settings")
application = UnreadBodies(
    ClientCertificates(
        get_wsgi_application(),
        header=settings.CLIENT_CERTIFICATE_HEADER,
        proxies=settings.TRUSTED_PROXIES,
    )
)
