"""Settings, read from the environment; without any, a laptop's embedded installation.

`FENCEPOST_DATA`              folder of all that the installation keeps (`.fencepost`)
`FENCEPOST_URL`               where browsers and workers reach it; an https address is assumed
`DATABASE_URL`                a PostgreSQL >= 15 of your own; without it the embedded one is used
`DATABASE_OWNER_URL`          the same database as the role that owns its tables, for `migrate`
`FENCEPOST_ALLOWED_HOSTS`     further host names, comma-separated
`FENCEPOST_SECRET_KEY`        instead of the key in the data folder
`FENCEPOST_POOL_MAX`          database connections per process; 0 opens one per thread
`FENCEPOST_METRICS_TOKEN`     bearer token of `/metrics`, which else answers this machine only
`FENCEPOST_TOTP`, `FENCEPOST_OIDC_*`   how people sign in: see `docs/how-to/sign-in.md`
`FENCEPOST_STATEMENT_TIMEOUT_MS`, `FENCEPOST_LOG_LEVEL`, `FENCEPOST_DEBUG`
"""

import logging
import re
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
import structlog
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from governance.local import embedded, folder, keys, rendezvous

env = environ.Env()

BASE_DIR = Path(__file__).resolve().parent.parent
#: The worker's package, for the programs of this checkout that start it or publish its schemas.
WORKER_SOURCE = BASE_DIR / "agents" / "worker" / "src"
DATA_DIR = folder.usable(folder.data_folder())

DEBUG = env.bool("FENCEPOST_DEBUG", default=False)
SECRET_KEY = env.str("FENCEPOST_SECRET_KEY", default="") or keys.secret_key(DATA_DIR)

# ---- where it is reached ---------------------------------------------------------------------

#: Without an address the strict side is assumed; `manage.py up` names its own, on loopback.
PUBLIC_URL = env.str("FENCEPOST_URL", default="https://localhost").rstrip("/")
_public = urlsplit(PUBLIC_URL)
_encrypted = _public.scheme == "https"
ALLOWED_HOSTS = sorted(
    {"127.0.0.1", "localhost", "[::1]", _public.hostname or "localhost"}
    | set(env.list("FENCEPOST_ALLOWED_HOSTS", default=[]))
)
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]
SECURE_SSL_REDIRECT = _encrypted
#: Probes come from the machine itself or its orchestrator, without TLS.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = 31_536_000 if _encrypted else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = _encrypted
SECURE_HSTS_PRELOAD = _encrypted
BEHIND_PROXY = env.bool("FENCEPOST_BEHIND_PROXY", default=False)
if BEHIND_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _encrypted
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

# ---- what it is made of ----------------------------------------------------------------------

INSTALLED_APPS = [
    "governance.console.apps.ConsoleConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "axes",
    "csp",
    "django_filters",
    "django_htmx",
    "django_structlog",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "governance",
    "agents",
    "jobs",
]

MIDDLEWARE = [
    "governance.web.metrics.RequestMetrics",
    "governance.web.middleware.RequestIdentity",
    "governance.web.middleware.ApiProblems",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "governance.web.middleware.SeenCharacters",
]

ROOT_URLCONF = "governance.urls"
WSGI_APPLICATION = "governance.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# ---- database --------------------------------------------------------------------------------

#: A request that waits longer for a lock is answered with CONTENTION; nothing runs for ever.
SESSION_SETTINGS = {
    "lock_timeout": "2000",
    "statement_timeout": env.str("FENCEPOST_STATEMENT_TIMEOUT_MS", default="15000"),
    "idle_in_transaction_session_timeout": "15000",
    "TimeZone": "UTC",
    # Statements here are short: to compile one whose cost was estimated high takes longer than it.
    "jit": "off",
}
#: `FENCEPOST_DSN` comes from whoever started the embedded server, and is nothing to set by hand.
_address = env.str("FENCEPOST_DSN", default="") or env.str("DATABASE_URL", default="")
DATABASES: dict[str, dict[str, Any]] = {
    "default": embedded.django_database(
        _address or embedded.running_dsn(DATA_DIR) or embedded.ABSENT_DSN,
        session_settings=SESSION_SETTINGS,
        pool_max=env.int("FENCEPOST_POOL_MAX", default=0),
    )
}

_owner_address = env.str("FENCEPOST_OWNER_DSN", default="") or env.str(
    "DATABASE_OWNER_URL", default=""
)
if not (_address or _owner_address):
    _owner_address = embedded.running_dsn(DATA_DIR, role=rendezvous.OWNER) or ""
#: The same database as the role that owns its tables; empty where the service itself does.
OWNER_DATABASE: dict[str, Any] = (
    embedded.django_database(_owner_address, session_settings=SESSION_SETTINGS)
    if _owner_address
    else {}
)

# ---- who signs in ----------------------------------------------------------------------------

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
#: The model whose content type the permissions of operators' verbs are tied to, whoever declares
#: them. It stays: what installations have granted is tied to it, too.
PERMISSIONS_MODEL = "agents.fleet"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "admin:login"
#: Where a `next` that is no page of ours leads.
LOGIN_REDIRECT_URL = "admin:index"
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = 0.25  # hours
#: A name is locked for the address that failed, so that nobody locks others out from afar.
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "governance.web.middleware.client_address"
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_TEMPLATE = "console/locked.html"
AXES_ENABLE_ACCESS_FAILURE_LOG = False
AXES_VERBOSE = False

# ---- further ways to sign in, by django-allauth; without these settings it is not even loaded ---

#: `optional`: who wants may have a second factor; `required`: nobody sees the console without.
TOTP = env.str("FENCEPOST_TOTP", default="")
if TOTP not in {"", "optional", "required"}:
    raise ImproperlyConfigured(f"FENCEPOST_TOTP is {TOTP!r}: optional, required, or not set.")
OIDC_ISSUER = env.str("FENCEPOST_OIDC_ISSUER", default="").rstrip("/")
OIDC_CLIENT_ID = env.str("FENCEPOST_OIDC_CLIENT_ID", default="")
OIDC_CLIENT_SECRET = env.str("FENCEPOST_OIDC_CLIENT_SECRET", default="")
#: What the issuer is called on the page where people sign in.
OIDC_NAME = env.str("FENCEPOST_OIDC_NAME", default="single sign-on")
#: The claim that names the groups of a person; a dot goes one level down.
OIDC_GROUPS_CLAIM = env.str("FENCEPOST_OIDC_GROUPS_CLAIM", default="groups")
#: `operator=ops-team,governor=platform`: which of the issuer's groups makes whom what.
OIDC_GROUPS: dict[str, str] = env.dict("FENCEPOST_OIDC_GROUPS", default={})
#: Further origins that the browser is sent through on its way to the issuer.
OIDC_ORIGINS = env.list("FENCEPOST_OIDC_ORIGINS", default=[])
if bool(OIDC_ISSUER) != bool(OIDC_CLIENT_ID and OIDC_CLIENT_SECRET):
    raise ImproperlyConfigured(
        "FENCEPOST_OIDC_ISSUER, FENCEPOST_OIDC_CLIENT_ID and FENCEPOST_OIDC_CLIENT_SECRET "
        "go together: set all three or none."
    )

ALLAUTH = bool(TOTP or OIDC_ISSUER)
if ALLAUTH:
    INSTALLED_APPS += ["allauth", "allauth.account"]
    MIDDLEWARE += ["allauth.account.middleware.AccountMiddleware"]
    LOGIN_URL = "account_login"
    LOGOUT_REDIRECT_URL = "admin:index"
    ACCOUNT_ADAPTER = "governance.console.sign_in.AccountAdapter"
    ACCOUNT_LOGIN_METHODS = {"username"}
    ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
    ACCOUNT_EMAIL_VERIFICATION = "none"
    ACCOUNT_SESSION_REMEMBER = True  # for SESSION_COOKIE_AGE, as without allauth
    ACCOUNT_DEFAULT_HTTP_PROTOCOL = _public.scheme
    # Failures are counted by axes, in the database and so for all processes together.
    ACCOUNT_RATE_LIMITS = {"login_failed": None}
if TOTP:
    INSTALLED_APPS += ["allauth.mfa"]
    MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
    MFA_ADAPTER = "governance.console.second_factor.SecondFactorAdapter"
    MFA_FORMS = {
        "authenticate": "governance.console.second_factor.CodeForm",
        "reauthenticate": "governance.console.second_factor.CodeAgainForm",
    }
    MFA_TOTP_ISSUER = f"Fencepost {env.str('FENCEPOST_ENVIRONMENT', default='')}".strip()
    MFA_ALLOW_UNVERIFIED_EMAIL = True
    MFA_TOTP_TOLERANCE = 1  # periods of 30 s that a phone's clock, or a slow hand, may be off
if TOTP == "required":
    MIDDLEWARE += ["governance.console.second_factor.SecondFactorRequired"]
if OIDC_ISSUER:
    INSTALLED_APPS += ["allauth.socialaccount", "allauth.socialaccount.providers.openid_connect"]
    SOCIALACCOUNT_ADAPTER = "agents.console.issuer.IssuerAdapter"
    SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {
            "OAUTH_PKCE_ENABLED": True,
            "APPS": [
                {
                    "provider_id": "issuer",
                    "name": OIDC_NAME,
                    "client_id": OIDC_CLIENT_ID,
                    "secret": OIDC_CLIENT_SECRET,
                    "settings": {"server_url": OIDC_ISSUER},
                }
            ],
        }
    }
    # Browsers hold the redirects that follow a form to the same rule as the form.
    _issuer = urlsplit(OIDC_ISSUER)
    CONTENT_SECURITY_POLICY["DIRECTIVES"]["form-action"] += [
        f"{_issuer.scheme}://{_issuer.netloc}",
        *OIDC_ORIGINS,
    ]

# ---- worker API ------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": ["agents.web.authentication.BearerToken"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Fencepost",
    "DESCRIPTION": (
        "Governed job control plane for AI-agent workers: the worker API. Requests and answers are "
        "JSON whatever `Accept` says, failures `application/problem+json`. Unknown members and "
        "query parameters are refused, and so is a parameter that is given twice."
    ),
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/v1",
    # Enumerations stay where they are used: no names are made up for them.
    "POSTPROCESSING_HOOKS": [],
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}
#: Threads of a web process; half of them at most wait for work on behalf of pollers.
WEB_THREADS = env.int("FENCEPOST_THREADS", default=16)
#: Whose word on client certificates counts: addresses, networks, or `unix`; and in which header.
TRUSTED_PROXIES = env.list("FENCEPOST_TRUSTED_PROXIES", default=[])
CLIENT_CERTIFICATE_HEADER = env.str("FENCEPOST_CLIENT_CERT_HEADER", default="")
#: Bytes of a request body; lists and nesting are bounded where they are read.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576

#: What Prometheus sends as bearer token; without one, only this machine is told.
METRICS_TOKEN = env.str("FENCEPOST_METRICS_TOKEN", default="")

# ---- money ----------------------------------------------------------------------------------

_confirm_usd = env.str("FENCEPOST_ADJUSTMENT_CONFIRM_USD", default="")
try:
    #: Corrections of what a call cost above this amount, either way, need a second governor.
    ADJUSTMENT_CONFIRM_USD = Decimal(_confirm_usd) if _confirm_usd else None
except InvalidOperation:
    raise ImproperlyConfigured(
        f"FENCEPOST_ADJUSTMENT_CONFIRM_USD is {_confirm_usd!r}: an amount, or not set."
    ) from None

# ---- the console -----------------------------------------------------------------------------

#: A word in the head of every page, so that nobody takes production for the test installation.
FENCEPOST_ENVIRONMENT = env.str("FENCEPOST_ENVIRONMENT", default="")
#: Dotted name of a function that takes a payload and returns what may be shown of it.
FENCEPOST_REDACT = env.str("FENCEPOST_REDACT", default="")

# ---- static files ----------------------------------------------------------------------------

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}

# ---- logs: one JSON object per line on stderr ------------------------------------------------

# `RequestIdentity` binds it, by a rule that no caller can bend.
DJANGO_STRUCTLOG_IP_LOGGING_ENABLED = False
#: `RequestIdentity` has judged it; of the correlation id nobody has.
DJANGO_STRUCTLOG_TRUST_UPSTREAM_REQUEST_ID = True
DJANGO_STRUCTLOG_TRUST_UPSTREAM_CORRELATION_ID = False


def _without_traceback(record: logging.LogRecord) -> bool:
    """Keep the line about a foreign `Host`; where it was raised tells nobody anything."""
    record.exc_info = record.exc_text = None
    return True


_SIGNED = re.compile(r"(/objects/)[^\s\"'?]+")


def _without_signatures(logger: Any, method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is signed of an upload's path: whoever reads it may put the object."""
    for name in ("request", "event"):
        if isinstance(text := event.get(name), str) and "/objects/" in text:
            event[name] = _SIGNED.sub(r"\1[signed]", text)
    return event


_shared_processors: list[Any] = [
    _without_signatures,
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
structlog.configure(
    processors=[
        structlog.stdlib.filter_by_level,
        *_shared_processors,
        structlog.processors.format_exc_info,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": structlog.stdlib.ProcessorFormatter,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
            "foreign_pre_chain": _shared_processors,
        }
    },
    "filters": {
        "without_traceback": {
            "()": "django.utils.log.CallbackFilter",
            "callback": _without_traceback,
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": env.str("FENCEPOST_LOG_LEVEL", default="INFO")},
    # Django's own line per refused request adds nothing to the one of django_structlog.
    "loggers": {
        "django.request": {"level": "ERROR"},
        "django.server": {"level": "ERROR"},
        "django.security.DisallowedHost": {"filters": ["without_traceback"]},
        # The relay tells what became of its connection, once.
        "pika": {"level": "CRITICAL"},
        "httpx2": {"level": "WARNING"},
    },
}

# ---- money -----------------------------------------------------------------------------------

#: A reservation that is in doubt for longer, of an attempt that is over, is told of.
IN_DOUBT_AGED_SECONDS = env.int("FENCEPOST_IN_DOUBT_AGED_SECONDS", default=3600)

# ---- where facts go; without a sink they wait, and the console says so -----------------------

BROKER_URL = env.str("BROKER_URL", default="")
BROKER_EXCHANGE = env.str("BROKER_EXCHANGE", default="fencepost.facts")
#: A durable queue that is declared and bound to everything; empty: the consumers bind their own.
BROKER_QUEUE = env.str("BROKER_QUEUE", default="fencepost.facts")
#: `quorum` on a cluster of three brokers or more; it cannot be changed once the queue is there.
BROKER_QUEUE_TYPE = env.str("BROKER_QUEUE_TYPE", default="classic")
BROKER_CONFIRM_TIMEOUT_SECONDS = env.int("BROKER_CONFIRM_TIMEOUT_SECONDS", default=30)
WEBHOOK_URL = env.str("WEBHOOK_URL", default="")
WEBHOOK_SECRET = env.str("WEBHOOK_SECRET", default="")
WEBHOOK_TIMEOUT_SECONDS = env.int("WEBHOOK_TIMEOUT_SECONDS", default=10)

# ---- artifacts -------------------------------------------------------------------------------

#: Without a bucket artifacts are kept in a folder of the installation.
S3_BUCKET = env.str("FENCEPOST_S3_BUCKET", default="")
S3_ENDPOINT = env.str("FENCEPOST_S3_ENDPOINT", default="")
