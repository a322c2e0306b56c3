"""The settings of the test run: those of the service, in a data folder of the run's own."""

import atexit
import os
import shutil
import tempfile

# Workers of pytest-xdist inherit the folder of their controller, which removes it when it ends.
if "FENCEPOST_TEST_RUN" not in os.environ:
    os.environ["FENCEPOST_TEST_RUN"] = tempfile.mkdtemp(prefix="fencepost-test-")
    atexit.register(shutil.rmtree, os.environ["FENCEPOST_TEST_RUN"], ignore_errors=True)
    os.environ["FENCEPOST_DATA"] = os.environ["FENCEPOST_TEST_RUN"] + "/data"
    os.environ["FENCEPOST_URL"] = "http://testserver"
    os.environ["FENCEPOST_LOG_LEVEL"] = "ERROR"
    # What a person's own installation is set to is none of a test's business.
    for name in ("DATABASE_URL", "BROKER_URL", "WEBHOOK_URL", "PROMETHEUS_MULTIPROC_DIR"):
        os.environ.pop(name, None)
    for name in ("DSN", "POOL_MAX", "THREADS", "METRICS_TOKEN", "TOTP", "OIDC_ISSUER"):
        os.environ.pop(f"FENCEPOST_{name}", None)
    # The server's unprivileged user passes through to its own folder, and sees nothing else.
    os.chmod(os.environ["FENCEPOST_TEST_RUN"], 0o711)

from governance.settings import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# A test that is about the lock-out after failed logins turns it on.
AXES_ENABLED = False
# Nothing is collected in tests, and whitenoise would warn of the absent folder.
WHITENOISE_AUTOREFRESH = True

# Programs that tests start find the worker of this checkout, whichever is installed.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(WORKER_SOURCE), os.environ.get("PYTHONPATH")])  # noqa: F405
)
