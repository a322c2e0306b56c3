"""Who calls: the principal behind a bearer token, and what its credential allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents import tokens
from governance.core import sql
from governance.core.errors import (
    ClientCertificateMismatch,
    ClientCertificateRequired,
    PermissionDenied,
    Unauthenticated,
)

#: `last_used_at` is as exact as this; finer would make a write of every read.
LAST_USED_GRAIN_SECONDS = 60
#: Compared with when no credential has the prefix, so that both refusals take the same time.
_NOBODY = tokens.generate().hashed

# No locks. Index: the unique one on `prefix`.
FIND = """
SELECT c.id, c.prefix, c.hashed_key, c.scopes, c.lineage, c.certificate_sha256,
       c.former_certificate_sha256, c.agent_id, c.submitter_id, a.require_certificates,
       coalesce(a.name, s.name) AS name, a.enabled, coalesce(u.username, '') AS owner,
       c.revoked_at IS NOT NULL AS revoked,
       coalesce(c.expires_at <= clock_timestamp(), false) AS expired,
       coalesce(c.last_used_at < clock_timestamp() - make_interval(secs => %(grain)s), true)
           AS touch_due
  FROM agents_credential c
  LEFT JOIN agents_agent a ON a.id = c.agent_id
  LEFT JOIN agents_submitter s ON s.id = c.submitter_id
  LEFT JOIN auth_user u ON u.id = s.owner_id
 WHERE c.prefix = %(prefix)s
"""

# Locks: the credential, shared. Whoever revokes it waits for this transaction, or has been waited
# for; what is judged is read in the statement after it.
HOLD = "SELECT id FROM agents_credential WHERE id = %s FOR SHARE"

# Locks: the credential's row if it is free at once; many requests of one token arrive together,
# and none of them waits for another's note of it.
TOUCH = """
UPDATE agents_credential SET last_used_at = clock_timestamp()
 WHERE id = (SELECT id FROM agents_credential WHERE id = %(id)s
              FOR NO KEY UPDATE SKIP LOCKED)
"""


@dataclass(frozen=True)
class Principal:
    """An authenticated caller. `id` is the primary key of its agent or submitter.

    `requested_by` is the username of the person who answers for a submitter, or empty;
    `credential_prefix` names the credential, and is no secret; its `lineage` outlives rotations.
    `certificate_sha256` is what the credential is bound to, `presented_sha256` what the caller came
    with; `certificates` are all by which it is the same caller. Empty: none.
    """

    kind: str
    id: int
    name: str
    credential_id: int
    scopes: frozenset[str]
    certificate_sha256: str = ""
    requested_by: str = ""
    credential_prefix: str = ""
    lineage: UUID | None = None
    presented_sha256: str = ""
    certificates: tuple[str, ...] = ()

    #: What Django and DRF ask of a `request.user`.
    is_authenticated = True
    is_anonymous = False
    is_active = True

    @property
    def text(self) -> str:
        """Return the principal as the audit trail and the idempotency records name it."""
        return f"{self.kind}:{self.name}"

    def __str__(self) -> str:
        return self.text

    @property
    def authenticated(self) -> dict[str, Any]:
        """Return what the SQL that judges a session asks of its caller."""
        return {
            "lineage": self.lineage,
            "certificates": list(self.certificates),
            "bound": bool(self.certificate_sha256),
        }

    def require(self, scope: str) -> None:
        """Refuse unless the credential has `scope`; asked before anything is looked up.

        :raises PermissionDenied: it has not.
        """
        if scope not in self.scopes:
            raise PermissionDenied(f"The credential lacks the scope `{scope}`.")


def agent_disabled() -> PermissionDenied:
    """Return the refusal of whatever a disabled agent asks for."""
    return PermissionDenied("This agent is disabled.")


def need_certificate(*, demanded: bool | None, bound_to: str) -> None:
    """Refuse a credential that is bound to no certificate where its agent demands that.

    :raises ClientCertificateRequired: it is not.
    """
    if demanded and not bound_to:
        raise ClientCertificateRequired()


def identify(*, token: str, certificate_sha256: str = "") -> Principal:
    """Return the principal of a bearer token: one round trip, and one more once a minute.

    :param certificate_sha256: fingerprint (lower-case hex) of the client certificate that the
        connection presented, empty without one.
    :raises Unauthenticated: no such token, or it has expired or been revoked.
    :raises ClientCertificateMismatch: the credential is bound to another certificate.
    :raises ClientCertificateRequired: it is bound to none, and its agent demands one.
    :raises PermissionDenied: the agent is disabled.
    """
    prefix = tokens.prefix_of(token)
    row = _find(prefix) if prefix else None
    if not tokens.matches(token, row["hashed_key"] if row else _NOBODY) or row is None:
        raise Unauthenticated("The bearer token is not valid.")
    bound = _judge(row, certificate_sha256)
    if row["touch_due"]:
        sql.pipeline(sql.Statement(TOUCH, {"id": row["id"]}))
    is_agent = row["agent_id"] is not None
    return Principal(
        kind="agent" if is_agent else "submitter",
        id=row["agent_id"] if is_agent else row["submitter_id"],
        name=row["name"],
        credential_id=row["id"],
        scopes=frozenset(row["scopes"]),
        certificate_sha256=row["certificate_sha256"],
        requested_by=row["owner"],
        credential_prefix=row["prefix"],
        lineage=row["lineage"],
        presented_sha256=certificate_sha256,
        certificates=tuple(sorted(bound | {certificate_sha256} - {""})),
    )


def hold(principal: Principal) -> None:
    """Hold the caller's credential as it is until the open transaction ends, and judge it anew.

    For what gives authority away: once a revocation has been answered, nothing of it is given.

    :raises Unauthenticated, ClientCertificateMismatch, ClientCertificateRequired,
        PermissionDenied: as `identify`, of a credential that has been revoked since, or has
        expired.
    """
    _, rows = sql.pipeline(
        sql.Statement(HOLD, (principal.credential_id,)), _finding(principal.credential_prefix)
    )
    if not rows:
        raise Unauthenticated("The bearer token is not valid.")
    _judge(rows[0], principal.presented_sha256)


def _judge(row: sql.Row, certificate_sha256: str) -> set[str]:
    """Refuse a credential that may not be used, or not over this connection.

    :return: the certificates that it is bound to.
    """
    if row["revoked"]:
        raise Unauthenticated("The bearer token has been revoked.")
    if row["expired"]:
        raise Unauthenticated("The bearer token has expired.")
    bound = {row["certificate_sha256"], row["former_certificate_sha256"]} - {""}
    if bound and certificate_sha256 not in bound:
        raise ClientCertificateMismatch()
    need_certificate(demanded=row["require_certificates"], bound_to=row["certificate_sha256"])
    if row["enabled"] is False:
        raise agent_disabled()
    return bound


def _find(prefix: str) -> dict[str, Any] | None:
    [rows] = sql.pipeline(_finding(prefix))
    return rows[0] if rows else None


def _finding(prefix: str) -> sql.Statement:
    return sql.Statement(FIND, {"prefix": prefix, "grain": LAST_USED_GRAIN_SECONDS})
