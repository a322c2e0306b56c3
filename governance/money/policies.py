"""Policies and prices as SQL reads them: which models work may use, and what they cost."""

from __future__ import annotations

from governance.core import sql
from governance.money.pricing import PriceList, document_of_first_rates

# A price of the first release has no document: it is what its columns and tiers say.
PRICE_COLUMNS = (
    "p.id AS price_id, p.version, p.document::text, CASE WHEN p.document IS NULL THEN"
    " json_build_array(p.call_rate::text, json_build_array(0, p.input_rate::text,"
    " p.output_rate::text, p.cached_input_rate::text, p.reasoning_rate::text),"
    " (SELECT coalesce(json_agg(json_build_array(t.above_input_tokens,"
    " t.input_rate::text, t.output_rate::text, t.cached_input_rate::text, t.reasoning_rate::text)"
    " ORDER BY t.above_input_tokens), '[]') FROM governance_pricetier t"
    " WHERE t.price_id = p.id))::text END AS first_rates"
)
# The one policy for an agent, a job type and a tier: the most specific of those that fit. In the
# braces stand what names these three: parameters, or columns of the statement around it.
POLICY = (
    "SELECT id, max_output_tokens FROM governance_routepolicy WHERE retired_at IS NULL"
    "  AND agent IN ('', {agent}) AND job_type IN ('', {job_type})"
    "  AND risk_tier IN ('', {risk_tier})"
    "  ORDER BY (agent <> '')::int + (job_type <> '')::int + (risk_tier <> '')::int DESC,"
    "  agent DESC, job_type DESC LIMIT 1"
)
# The models that a policy allows and that are enabled, in order, as JSON text: what a claim tells
# of them. Braces as of `POLICY`.
ALLOWED_MODELS = (
    "(SELECT coalesce(json_agg(json_build_object('position', l.position, 'provider', m.provider,"
    " 'model', m.name, 'api', m.api,"
    " 'max_output_tokens', least(o.max_output_tokens, m.output_tokens_max),"
    " 'context_tokens_max', m.context_tokens_max, 'output_tokens_max', m.output_tokens_max)"
    f" ORDER BY l.position), '[]')::text FROM ({POLICY}) o"
    " JOIN governance_routepolicymodel l ON l.policy_id = o.id"
    " JOIN governance_languagemodel m ON m.id = l.model_id AND m.enabled)"
)
# The allowed models in order, each with the price in force. Parameters: agent, job type, tier.
READ_CANDIDATES = (
    "SELECT l.policy_id, l.position, y.max_output_tokens, m.id AS model_id, m.provider, m.name,"
    " m.api, m.enabled,"
    f" m.capabilities::text, m.context_tokens_max, m.output_tokens_max, {PRICE_COLUMNS}"
    f" FROM ({POLICY.format(agent='%s', job_type='%s', risk_tier='%s')}) y"
    " JOIN governance_routepolicymodel l ON l.policy_id = y.id"
    " JOIN governance_languagemodel m ON m.id = l.model_id"
    " LEFT JOIN LATERAL (SELECT * FROM governance_price WHERE model_id = m.id"
    "  AND starts_at <= clock_timestamp() AND (ends_at IS NULL OR ends_at > clock_timestamp())"
    "  ORDER BY (source = 'override') DESC, starts_at DESC LIMIT 1) p ON true"
    " ORDER BY l.position"
)


def price_list(row: sql.Row) -> PriceList:
    """Return the price whose `PRICE_COLUMNS` are in `row`."""
    document = row["document"] or document_of_first_rates(row["first_rates"])
    return PriceList(row["price_id"], row["version"], document)
