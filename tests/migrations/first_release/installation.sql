CREATE FUNCTION agents_agent_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.admission_generation < OLD.admission_generation
       OR (NEW.admission <> OLD.admission
           AND NEW.admission_generation = OLD.admission_generation) THEN
        RAISE EXCEPTION 'every change of admission raises its generation'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION agents_credential_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
        RAISE EXCEPTION 'a revoked credential stays revoked' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION agents_runtimeswitch_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF OLD.state <> 'running' THEN
        RAISE EXCEPTION 'a runtime switch that has ended does not change'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION agents_session_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF OLD.state = 'superseded' AND NEW.state <> 'superseded' THEN
        RAISE EXCEPTION 'a superseded session stays superseded'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION fencepost_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE FUNCTION fencepost_never_deleted() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never deleted', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE FUNCTION governance_budget_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF (NEW.scope, NEW.key, NEW."window") IS DISTINCT FROM (OLD.scope, OLD.key, OLD."window") THEN
        RAISE EXCEPTION 'a budget keeps its scope, key and window'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION governance_budgetwindow_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF (NEW.budget_id, NEW.counted_for, NEW.kind, NEW.starts_at, NEW.ends_at)
       IS DISTINCT FROM
       (OLD.budget_id, OLD.counted_for, OLD.kind, OLD.starts_at, OLD.ends_at) THEN
        RAISE EXCEPTION 'a budget window keeps its place'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION governance_fact_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.published_at IS NULL THEN
            RAISE EXCEPTION 'a fact that was not published is not deleted'
                USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN OLD;
    END IF;
    IF (NEW.fact_id, NEW.principal, NEW.stream, NEW.sequence, NEW.type, NEW.data,
        NEW.content_sha256, NEW.receipt_id, NEW.recorded_at, NEW.relayed)
       IS DISTINCT FROM
       (OLD.fact_id, OLD.principal, OLD.stream, OLD.sequence, OLD.type, OLD.data,
        OLD.content_sha256, OLD.receipt_id, OLD.recorded_at, OLD.relayed) THEN
        RAISE EXCEPTION 'the content of a fact does not change'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION governance_factstream_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.sequence < OLD.sequence OR NEW.name <> OLD.name THEN
        RAISE EXCEPTION 'stream %: its counter never falls', OLD.name
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION governance_price_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF to_jsonb(NEW) - 'ends_at' IS DISTINCT FROM to_jsonb(OLD) - 'ends_at'
       OR OLD.ends_at IS NOT NULL THEN
        RAISE EXCEPTION 'a price does not change; it ends once'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION governance_reservation_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state NOT IN ('held', 'in_doubt') THEN
            RAISE EXCEPTION 'a reservation begins open' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF to_jsonb(NEW) - 'state' IS DISTINCT FROM to_jsonb(OLD) - 'state' THEN
        RAISE EXCEPTION 'only the state of a reservation changes'
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = OLD.state THEN
        RETURN NEW;
    END IF;
    IF OLD.state NOT IN ('held', 'in_doubt') OR NEW.state = 'held'
       OR (OLD.state = 'in_doubt' AND NEW.state = 'released') THEN
        RAISE EXCEPTION 'a reservation does not go from % to %', OLD.state, NEW.state
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state <> 'in_doubt' AND NOT EXISTS (
        SELECT 1 FROM governance_resolution r
        WHERE r.reservation_id = NEW.reservation_id AND r.ended_as = NEW.state
    ) THEN
        RAISE EXCEPTION 'a reservation ends by its resolution'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION governance_resolution_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM governance_reservation r
        WHERE r.reservation_id = NEW.reservation_id AND r.state IN ('held', 'in_doubt')
    ) THEN
        RAISE EXCEPTION 'only an open reservation is resolved'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION governance_routepolicy_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF to_jsonb(NEW) - '{retired_at,audit_seq,audit_head}'::text[]
       IS DISTINCT FROM to_jsonb(OLD) - '{retired_at,audit_seq,audit_head}'::text[]
       OR (OLD.retired_at IS NOT NULL AND NEW.retired_at IS DISTINCT FROM OLD.retired_at) THEN
        RAISE EXCEPTION 'a route policy does not change; it is retired once'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION jobs_approval_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.decision = 'approved' AND EXISTS (
        SELECT 1 FROM jobs_job j WHERE j.id = NEW.job_id
           AND jobs_person(NEW.decided_by) IN (jobs_person(j.submitted_by), jobs_person(j.requested_by), jobs_person(j.asked_again_by))
    ) THEN
        RAISE EXCEPTION 'nobody approves what they asked for themselves'
            USING ERRCODE = 'restrict_violation', CONSTRAINT = 'approval_by_second_person';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION jobs_attempt_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF (NEW.job_id, NEW.number, NEW.fencing_token, NEW.session_id, NEW.worker_id, NEW.runtime,
        NEW.claimed_at) IS DISTINCT FROM
       (OLD.job_id, OLD.number, OLD.fencing_token, OLD.session_id, OLD.worker_id, OLD.runtime,
        OLD.claimed_at)
       OR (OLD.ended_at IS NOT NULL
           AND ((NEW.ended_at, NEW.outcome, NEW.outcome_sha256, NEW.error_code,
                 NEW.error_message) IS DISTINCT FROM
                (OLD.ended_at, OLD.outcome, OLD.outcome_sha256, OLD.error_code,
                 OLD.error_message)
                OR (OLD.result IS NOT NULL AND NEW.result IS DISTINCT FROM OLD.result)
                OR (OLD.result_pointer <> '' AND NEW.result_pointer <> OLD.result_pointer)
                OR (OLD.outcome = 'completed'
                    AND (NEW.result, NEW.result_pointer)
                        IS DISTINCT FROM (OLD.result, OLD.result_pointer)))) THEN
        RAISE EXCEPTION 'an attempt''s identity and its outcome do not change'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION jobs_execution_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF OLD.state <> 'unknown' THEN
        RAISE EXCEPTION 'execution %: % is final', OLD.external_request_id, OLD.state
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF (NEW.external_request_id, NEW.job_id, NEW.attempt, NEW.fencing_token, NEW.permit_id,
        NEW.execution_digest, NEW.request_sha256, NEW.mode, NEW.runtime) IS DISTINCT FROM
       (OLD.external_request_id, OLD.job_id, OLD.attempt, OLD.fencing_token, OLD.permit_id,
        OLD.execution_digest, OLD.request_sha256, OLD.mode, OLD.runtime) THEN
        RAISE EXCEPTION 'execution %: its binding does not change', OLD.external_request_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION jobs_job_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.state <> OLD.state AND NOT (
        NEW.state = ANY (jobs_moves(OLD.state))
        OR ('needs_rework' = ANY (jobs_moves(OLD.state))
            AND NEW.state = ANY (jobs_moves('needs_rework')))
    ) THEN
        RAISE EXCEPTION 'job %: % -> % is not a move', OLD.task_id, OLD.state, NEW.state
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.attempt < OLD.attempt OR NEW.attempt > OLD.attempt + 1
       OR (NEW.attempt > OLD.attempt
           AND (NEW.state <> 'active' OR NEW.fencing_token <= OLD.fencing_token)) THEN
        RAISE EXCEPTION 'job %: attempts grow by one, with a claim', OLD.task_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.fencing_token < OLD.fencing_token OR NEW.revision < OLD.revision
       OR NEW.audit_seq < OLD.audit_seq OR NEW.fact_sequence < OLD.fact_sequence
       OR NEW.reflection_count < OLD.reflection_count THEN
        RAISE EXCEPTION 'job %: a counter never falls', OLD.task_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.max_attempts <> OLD.max_attempts AND NOT EXISTS (
        SELECT 1 FROM jobs_retryextension e WHERE e.job_id = OLD.id
           AND e.from_max = OLD.max_attempts AND e.to_max = NEW.max_attempts
    ) THEN
        RAISE EXCEPTION 'job %: only a retry extension raises max_attempts', OLD.task_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.state = 'held' AND NEW.state = 'queued' AND NOT EXISTS (
        SELECT 1 FROM jobs_approval a WHERE a.job_id = OLD.id AND a.decision = 'approved'
           AND a.valid_until = NEW.approval_valid_until
    ) THEN
        RAISE EXCEPTION 'job %: only an approval releases a hold', OLD.task_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF (NEW.job_id, NEW.task_id, NEW.agent_id, NEW.job_type_id, NEW.risk_tier, NEW.submitted_by,
        NEW.created_at) IS DISTINCT FROM
       (OLD.job_id, OLD.task_id, OLD.agent_id, OLD.job_type_id, OLD.risk_tier, OLD.submitted_by,
        OLD.created_at) THEN
        RAISE EXCEPTION 'job %: its identity does not change', OLD.task_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION jobs_moves(state text) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE state
        WHEN 'held' THEN ARRAY['queued', 'stopped', 'failed']
        WHEN 'queued' THEN ARRAY['active', 'held', 'stopped', 'failed']
        WHEN 'active' THEN ARRAY['completed', 'review_required', 'queued', 'failed', 'escalated',
                                 'in_doubt', 'stopped']
        WHEN 'review_required' THEN ARRAY['completed', 'needs_rework', 'failed', 'stopped']
        WHEN 'needs_rework' THEN ARRAY['queued', 'held', 'stopped', 'failed']
        WHEN 'in_doubt' THEN ARRAY['completed', 'review_required', 'queued', 'failed', 'stopped']
        WHEN 'escalated' THEN ARRAY['queued', 'held', 'needs_rework', 'completed', 'failed',
                                    'stopped']
        WHEN 'failed' THEN ARRAY['needs_rework']
        ELSE ARRAY[]::text[]
    END
$$;
CREATE FUNCTION jobs_permit_guard() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF OLD.state <> 'issued' AND NEW.state <> OLD.state THEN
        RAISE EXCEPTION 'permit %: % is final', OLD.permit_id, OLD.state
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF (NEW.permit_id, NEW.job_id, NEW.attempt, NEW.fencing_token, NEW.external_request_id,
        NEW.mode, NEW.reservation_id, NEW.deadline_at) IS DISTINCT FROM
       (OLD.permit_id, OLD.job_id, OLD.attempt, OLD.fencing_token, OLD.external_request_id,
        OLD.mode, OLD.reservation_id, OLD.deadline_at) THEN
        RAISE EXCEPTION 'permit %: its binding does not change', OLD.permit_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION jobs_person(actor text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT nullif(regexp_replace(actor, '^(user|command):', ''), '')
$$;
CREATE TABLE agents_activation (
    id bigint NOT NULL,
    operation_id varchar(120) NOT NULL,
    request_sha256 varchar(64) NOT NULL,
    answer jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    agent_id bigint NOT NULL,
    session_id bigint NOT NULL
);
ALTER TABLE agents_activation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE agents_admissionchange (
    id bigint NOT NULL,
    barrier_id varchar(120) NOT NULL,
    expected_generation bigint NOT NULL,
    state varchar(8) NOT NULL,
    generation bigint NOT NULL,
    actor varchar(160) NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL,
    agent_id bigint NOT NULL,
    CONSTRAINT admission_generation_follows CHECK ((generation = (expected_generation + 1))),
    CONSTRAINT admission_has_reason CHECK ((NOT (reason = ''::text))),
    CONSTRAINT agents_admissionchange_expected_generation_check CHECK ((expected_generation >= 0)),
    CONSTRAINT agents_admissionchange_generation_check CHECK ((generation >= 0))
);
ALTER TABLE agents_admissionchange ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE agents_agent (
    id bigint NOT NULL,
    audit_seq bigint NOT NULL,
    audit_head bytea NOT NULL,
    name varchar(60) NOT NULL,
    max_risk_tier varchar(6) NOT NULL,
    runtime varchar(40) NOT NULL,
    enabled boolean NOT NULL,
    expected boolean NOT NULL,
    approve_cells boolean NOT NULL,
    fresh_seconds integer NOT NULL,
    stale_seconds integer NOT NULL,
    admission varchar(8) NOT NULL,
    admission_generation bigint NOT NULL,
    barrier_id varchar(120) NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT agent_admission_is_known CHECK (((admission)::text = ANY ((ARRAY['open'::varchar, 'draining'::varchar, 'closed'::varchar])::text[]))),
    CONSTRAINT agent_risk_tier_is_known CHECK (((max_risk_tier)::text = ANY ((ARRAY['low'::varchar, 'medium'::varchar, 'high'::varchar])::text[]))),
    CONSTRAINT agent_stale_after_fresh CHECK ((stale_seconds >= fresh_seconds)),
    CONSTRAINT agents_agent_admission_generation_check CHECK ((admission_generation >= 0)),
    CONSTRAINT agents_agent_audit_seq_check CHECK ((audit_seq >= 0)),
    CONSTRAINT agents_agent_fresh_seconds_check CHECK ((fresh_seconds >= 0)),
    CONSTRAINT agents_agent_stale_seconds_check CHECK ((stale_seconds >= 0))
);
ALTER TABLE agents_agent ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE agents_cellapproval (
    id bigint NOT NULL,
    cell_id varchar(120) NOT NULL,
    approved_by varchar(160) NOT NULL,
    approved_at timestamptz NOT NULL,
    reason text NOT NULL,
    withdrawn_at timestamptz,
    withdrawn_by varchar(160) NOT NULL,
    withdraw_reason text NOT NULL,
    agent_id bigint NOT NULL,
    CONSTRAINT cell_approval_has_reason CHECK ((NOT (reason = ''::text)))
);
ALTER TABLE agents_cellapproval ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE agents_credential (
    id bigint NOT NULL,
    prefix varchar(16) NOT NULL,
    hashed_key varchar(160) NOT NULL,
    scopes varchar(10)[] NOT NULL,
    created_at timestamptz NOT NULL,
    created_by varchar(160) NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by varchar(160) NOT NULL,
    last_used_at timestamptz,
    certificate_sha256 varchar(64) NOT NULL,
    note varchar(200) NOT NULL,
    agent_id bigint,
    submitter_id bigint,
    CONSTRAINT credential_of_one_principal CHECK ((((agent_id IS NOT NULL) AND (submitter_id IS NULL)) OR ((agent_id IS NULL) AND (submitter_id IS NOT NULL)))),
    CONSTRAINT credential_scopes_are_known CHECK ((scopes <@ ARRAY['work'::varchar(10), 'submit'::varchar(10), 'control'::varchar(10), 'admit'::varchar(10), 'read'::varchar(10)]))
);
ALTER TABLE agents_credential ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE agents_fleet (
    id bigint NOT NULL,
    audit_seq bigint NOT NULL,
    audit_head bytea NOT NULL,
    dispatcher_epoch uuid NOT NULL,
    epoch_rotated_at timestamptz NOT NULL,
    CONSTRAINT agents_fleet_audit_seq_check CHECK ((audit_seq >= 0)),
    CONSTRAINT fleet_is_one_row CHECK ((id = 1))
);
ALTER TABLE agents_fleet ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE agents_maintenanceinhibit (
    id bigint NOT NULL,
    owner varchar(160) NOT NULL,
    reason text NOT NULL,
    starts_at timestamptz NOT NULL,
    ends_at timestamptz,
    lifted_at timestamptz,
    lifted_by varchar(160) NOT NULL,
    lift_reason text NOT NULL,
    agent_id bigint,
    CONSTRAINT inhibit_ends_after_start CHECK (((ends_at IS NULL) OR (ends_at > starts_at)))
);
ALTER TABLE agents_maintenanceinhibit ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE agents_presence (
    session_id bigint NOT NULL,
    last_heartbeat_at timestamptz NOT NULL,
    last_claim_at timestamptz,
    runtime varchar(40) NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02');
CREATE TABLE agents_runtimeswitch (
    id bigint NOT NULL,
    from_runtime varchar(40) NOT NULL,
    to_runtime varchar(40) NOT NULL,
    state varchar(8) NOT NULL,
    step varchar(8) NOT NULL,
    reopen boolean NOT NULL,
    started_by varchar(160) NOT NULL,
    reason text NOT NULL,
    started_at timestamptz NOT NULL,
    switched_at timestamptz,
    finished_at timestamptz,
    error text NOT NULL,
    steps jsonb NOT NULL,
    agent_id bigint NOT NULL,
    inhibit_id bigint NOT NULL,
    CONSTRAINT runtime_switch_finished_iff_dated CHECK ((((finished_at IS NULL) AND ((state)::text = 'running'::text)) OR ((finished_at IS NOT NULL) AND ((state)::text = ANY ((ARRAY['verified'::varchar, 'failed'::varchar])::text[])))))
);
ALTER TABLE agents_runtimeswitch ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE agents_session (
    id bigint NOT NULL,
    session_id uuid NOT NULL,
    kind varchar(10) NOT NULL,
    state varchar(10) NOT NULL,
    worker_id varchar(120) NOT NULL,
    cell_id varchar(120) NOT NULL,
    boot_id varchar(120) NOT NULL,
    generation bigint NOT NULL,
    dispatcher_epoch uuid NOT NULL,
    activation_operation_id varchar(120) NOT NULL,
    protocol_version varchar(20) NOT NULL,
    runtime varchar(40) NOT NULL,
    capabilities jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    superseded_at timestamptz,
    agent_id bigint NOT NULL,
    CONSTRAINT agents_session_generation_check CHECK ((generation >= 0)),
    CONSTRAINT session_superseded_iff_dated CHECK (((((state)::text = 'superseded'::text) AND (superseded_at IS NOT NULL)) OR (((state)::text = ANY ((ARRAY['current'::varchar, 'pending'::varchar])::text[])) AND (superseded_at IS NULL))))
);
ALTER TABLE agents_session ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE agents_submitter (
    id bigint NOT NULL,
    audit_seq bigint NOT NULL,
    audit_head bytea NOT NULL,
    name varchar(60) NOT NULL,
    created_at timestamptz NOT NULL,
    owner_id integer,
    CONSTRAINT agents_submitter_audit_seq_check CHECK ((audit_seq >= 0))
);
ALTER TABLE agents_submitter ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE auth_group (
    id integer NOT NULL,
    name varchar(150) NOT NULL
);
ALTER TABLE auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE auth_group_permissions (
    id bigint NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE auth_permission (
    id integer NOT NULL,
    name varchar(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename varchar(100) NOT NULL
);
ALTER TABLE auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE auth_user (
    id integer NOT NULL,
    password varchar(128) NOT NULL,
    last_login timestamptz,
    is_superuser boolean NOT NULL,
    username varchar(150) NOT NULL,
    first_name varchar(150) NOT NULL,
    last_name varchar(150) NOT NULL,
    email varchar(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamptz NOT NULL
);
CREATE TABLE auth_user_groups (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    group_id integer NOT NULL
);
ALTER TABLE auth_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
ALTER TABLE auth_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE auth_user_user_permissions (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE auth_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE axes_accessattempt (
    id integer NOT NULL,
    user_agent varchar(255) NOT NULL,
    ip_address inet,
    username varchar(255),
    http_accept varchar(1025) NOT NULL,
    path_info varchar(255) NOT NULL,
    attempt_time timestamptz NOT NULL,
    get_data text NOT NULL,
    post_data text NOT NULL,
    failures_since_start integer NOT NULL,
    CONSTRAINT axes_accessattempt_failures_since_start_check CHECK ((failures_since_start >= 0))
);
ALTER TABLE axes_accessattempt ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE axes_accessattemptexpiration (
    access_attempt_id integer NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE TABLE axes_accessfailurelog (
    id integer NOT NULL,
    user_agent varchar(255) NOT NULL,
    ip_address inet,
    username varchar(255),
    http_accept varchar(1025) NOT NULL,
    path_info varchar(255) NOT NULL,
    attempt_time timestamptz NOT NULL,
    locked_out boolean NOT NULL
);
ALTER TABLE axes_accessfailurelog ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE axes_accesslog (
    id integer NOT NULL,
    user_agent varchar(255) NOT NULL,
    ip_address inet,
    username varchar(255),
    http_accept varchar(1025) NOT NULL,
    path_info varchar(255) NOT NULL,
    attempt_time timestamptz NOT NULL,
    logout_time timestamptz,
    session_hash varchar(64) NOT NULL
);
ALTER TABLE axes_accesslog ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE django_admin_log (
    id integer NOT NULL,
    action_time timestamptz NOT NULL,
    object_id text,
    object_repr varchar(200) NOT NULL,
    action_flag smallint NOT NULL,
    change_message text NOT NULL,
    content_type_id integer,
    user_id integer NOT NULL,
    CONSTRAINT django_admin_log_action_flag_check CHECK ((action_flag >= 0))
);
ALTER TABLE django_admin_log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE django_content_type (
    id integer NOT NULL,
    app_label varchar(100) NOT NULL,
    model varchar(100) NOT NULL
);
ALTER TABLE django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE django_migrations (
    id bigint NOT NULL,
    app varchar(255) NOT NULL,
    name varchar(255) NOT NULL,
    applied timestamptz NOT NULL
);
ALTER TABLE django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE django_session (
    session_key varchar(40) NOT NULL,
    session_data text NOT NULL,
    expire_date timestamptz NOT NULL
);
CREATE TABLE governance_auditcheckpoint (
    id bigint NOT NULL,
    number bigint NOT NULL,
    at timestamptz NOT NULL,
    first_event_id bigint NOT NULL,
    last_event_id bigint NOT NULL,
    leaf_count integer NOT NULL,
    root bytea NOT NULL,
    prev_hash bytea NOT NULL,
    hash bytea NOT NULL,
    envelope jsonb NOT NULL,
    CONSTRAINT governance_auditcheckpoint_first_event_id_check CHECK ((first_event_id >= 0)),
    CONSTRAINT governance_auditcheckpoint_last_event_id_check CHECK ((last_event_id >= 0)),
    CONSTRAINT governance_auditcheckpoint_leaf_count_check CHECK ((leaf_count >= 0)),
    CONSTRAINT governance_auditcheckpoint_number_check CHECK ((number >= 0))
);
ALTER TABLE governance_auditcheckpoint ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_auditcheckpointleaf (
    id bigint NOT NULL,
    subject varchar(160) NOT NULL,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    checkpoint_id bigint NOT NULL,
    CONSTRAINT governance_auditcheckpointleaf_seq_check CHECK ((seq >= 0))
);
ALTER TABLE governance_auditcheckpointleaf ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_auditevent (
    id bigint NOT NULL,
    subject varchar(160) NOT NULL,
    seq bigint NOT NULL,
    at timestamptz NOT NULL,
    action varchar(60) NOT NULL,
    actor varchar(160) NOT NULL,
    reason text NOT NULL,
    request_id varchar(64) NOT NULL,
    body bytea NOT NULL,
    prev_hash bytea NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT audit_event_seq_from_1 CHECK ((seq >= 1)),
    CONSTRAINT governance_auditevent_seq_check CHECK ((seq >= 0))
);
ALTER TABLE governance_auditevent ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_budget (
    id bigint NOT NULL,
    audit_seq bigint NOT NULL,
    audit_head bytea NOT NULL,
    scope varchar(8) NOT NULL,
    key varchar(100) NOT NULL,
    "window" varchar(5) NOT NULL,
    cap numeric(24,12),
    soft_cap numeric(24,12),
    enabled boolean NOT NULL,
    CONSTRAINT budget_cap_is_not_negative CHECK ((((cap IS NULL) OR (cap >= (0)::numeric)) AND ((soft_cap IS NULL) OR (soft_cap >= (0)::numeric)))),
    CONSTRAINT budget_key_iff_scoped CHECK (((((key)::text = ''::text) AND ((scope)::text = 'global'::text)) OR (((scope)::text = ANY ((ARRAY['agent'::varchar, 'job_type'::varchar, 'job'::varchar])::text[])) AND (NOT ((key)::text = ''::text))))),
    CONSTRAINT budget_window_is_known CHECK ((("window")::text = ANY ((ARRAY['day'::varchar, 'month'::varchar, 'none'::varchar])::text[]))),
    CONSTRAINT governance_budget_audit_seq_check CHECK ((audit_seq >= 0))
);
ALTER TABLE governance_budget ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_budgetwindow (
    id bigint NOT NULL,
    counted_for varchar(100) NOT NULL,
    kind varchar(5) NOT NULL,
    starts_at timestamptz NOT NULL,
    ends_at timestamptz,
    held numeric(24,12) NOT NULL,
    spent numeric(24,12) NOT NULL,
    warned_at timestamptz,
    budget_id bigint NOT NULL,
    CONSTRAINT budget_window_ends CHECK ((((ends_at IS NULL) AND ((kind)::text = 'none'::text)) OR ((ends_at > starts_at) AND ((kind)::text = ANY ((ARRAY['day'::varchar, 'month'::varchar])::text[]))))),
    CONSTRAINT budget_window_is_not_negative CHECK (((held >= (0)::numeric) AND (spent >= (0)::numeric)))
)
WITH (fillfactor='50');
ALTER TABLE governance_budgetwindow ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_bulkitem (
    id bigint NOT NULL,
    "position" integer NOT NULL,
    key varchar(200) NOT NULL,
    outcome varchar(10) NOT NULL,
    detail text NOT NULL,
    at timestamptz,
    run_id bigint NOT NULL,
    revision bigint,
    CONSTRAINT governance_bulkitem_position_check CHECK (("position" >= 0))
);
ALTER TABLE governance_bulkitem ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_bulkrun (
    id bigint NOT NULL,
    run_id uuid NOT NULL,
    act varchar(60) NOT NULL,
    model varchar(100) NOT NULL,
    reason text NOT NULL,
    fields jsonb NOT NULL,
    total integer NOT NULL,
    created_at timestamptz NOT NULL,
    finished_at timestamptz,
    stopped_by varchar(160) NOT NULL,
    user_id integer NOT NULL,
    CONSTRAINT bulk_run_has_reason CHECK ((NOT (reason = ''::text))),
    CONSTRAINT governance_bulkrun_total_check CHECK ((total >= 0))
);
ALTER TABLE governance_bulkrun ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_eventminute (
    id bigint NOT NULL,
    minute timestamptz NOT NULL,
    action varchar(60) NOT NULL,
    count integer NOT NULL,
    CONSTRAINT governance_eventminute_count_check CHECK ((count >= 0))
);
ALTER TABLE governance_eventminute ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_eventminutecursor (
    id bigint NOT NULL,
    last_event_id bigint NOT NULL,
    counted_at timestamptz NOT NULL,
    CONSTRAINT event_minute_cursor_is_one_row CHECK ((id = 1)),
    CONSTRAINT governance_eventminutecursor_last_event_id_check CHECK ((last_event_id >= 0))
);
ALTER TABLE governance_eventminutecursor ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_fact (
    id bigint NOT NULL,
    fact_id varchar(120) NOT NULL,
    principal varchar(160) NOT NULL,
    stream varchar(160) NOT NULL,
    sequence bigint,
    type varchar(120) NOT NULL,
    data jsonb NOT NULL,
    content_sha256 varchar(64) NOT NULL,
    receipt_id uuid NOT NULL,
    recorded_at timestamptz NOT NULL,
    relayed boolean NOT NULL,
    published_at timestamptz,
    delivered_to jsonb NOT NULL,
    CONSTRAINT fact_sequence_iff_relayed CHECK (((relayed AND (sequence IS NOT NULL)) OR ((published_at IS NULL) AND (NOT relayed) AND (sequence IS NULL)))),
    CONSTRAINT governance_fact_sequence_check CHECK ((sequence >= 0))
);
ALTER TABLE governance_fact ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_factsink (
    id bigint NOT NULL,
    audit_seq bigint NOT NULL,
    audit_head bytea NOT NULL,
    name varchar(40) NOT NULL,
    CONSTRAINT governance_factsink_audit_seq_check CHECK ((audit_seq >= 0))
);
ALTER TABLE governance_factsink ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_factstream (
    id bigint NOT NULL,
    name varchar(160) NOT NULL,
    sequence bigint NOT NULL,
    CONSTRAINT governance_factstream_sequence_check CHECK ((sequence >= 0))
);
ALTER TABLE governance_factstream ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_idempotencyrecord (
    id bigint NOT NULL,
    principal varchar(160) NOT NULL,
    operation varchar(80) NOT NULL,
    key uuid NOT NULL,
    digest bytea NOT NULL,
    status smallint NOT NULL,
    headers jsonb NOT NULL,
    body bytea,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT governance_idempotencyrecord_status_check CHECK ((status >= 0)),
    CONSTRAINT idempotency_final_answers_only CHECK (((status >= 200) AND (status < 500)))
);
ALTER TABLE governance_idempotencyrecord ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_languagemodel (
    id bigint NOT NULL,
    audit_seq bigint NOT NULL,
    audit_head bytea NOT NULL,
    provider varchar(60) NOT NULL,
    name varchar(120) NOT NULL,
    enabled boolean NOT NULL,
    capabilities jsonb NOT NULL,
    context_tokens_max integer,
    output_tokens_max integer,
    CONSTRAINT governance_languagemodel_audit_seq_check CHECK ((audit_seq >= 0)),
    CONSTRAINT governance_languagemodel_context_tokens_max_check CHECK ((context_tokens_max >= 0)),
    CONSTRAINT governance_languagemodel_output_tokens_max_check CHECK ((output_tokens_max >= 0)),
    CONSTRAINT language_model_is_named CHECK (((NOT ((provider)::text = ''::text)) AND (NOT ((name)::text = ''::text))))
);
ALTER TABLE governance_languagemodel ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_price (
    id bigint NOT NULL,
    input_rate numeric(24,12) NOT NULL,
    cached_input_rate numeric(24,12),
    output_rate numeric(24,12) NOT NULL,
    reasoning_rate numeric(24,12),
    source varchar(20) NOT NULL,
    version varchar(80) NOT NULL,
    starts_at timestamptz NOT NULL,
    ends_at timestamptz,
    call_rate numeric(24,12) NOT NULL,
    currency varchar(3) NOT NULL,
    model_id bigint NOT NULL,
    CONSTRAINT price_ends_after_start CHECK (((ends_at IS NULL) OR (ends_at >= starts_at))),
    CONSTRAINT price_in_one_currency CHECK (((currency)::text = 'USD'::text)),
    CONSTRAINT price_is_not_negative CHECK (((call_rate >= (0)::numeric) AND (input_rate >= (0)::numeric) AND (output_rate >= (0)::numeric) AND ((cached_input_rate IS NULL) OR (cached_input_rate >= (0)::numeric)) AND ((reasoning_rate IS NULL) OR (reasoning_rate >= (0)::numeric))))
);
ALTER TABLE governance_price ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_pricetier (
    id bigint NOT NULL,
    input_rate numeric(24,12) NOT NULL,
    cached_input_rate numeric(24,12),
    output_rate numeric(24,12) NOT NULL,
    reasoning_rate numeric(24,12),
    above_input_tokens integer NOT NULL,
    price_id bigint NOT NULL,
    CONSTRAINT governance_pricetier_above_input_tokens_check CHECK ((above_input_tokens >= 0)),
    CONSTRAINT price_tier_is_not_negative CHECK (((input_rate >= (0)::numeric) AND (output_rate >= (0)::numeric) AND ((cached_input_rate IS NULL) OR (cached_input_rate >= (0)::numeric)) AND ((reasoning_rate IS NULL) OR (reasoning_rate >= (0)::numeric))))
);
ALTER TABLE governance_pricetier ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_prunedfact (
    id bigint NOT NULL,
    fact_id varchar(120) NOT NULL,
    principal varchar(160) NOT NULL,
    content_sha256 varchar(64) NOT NULL,
    receipt_id uuid NOT NULL,
    sequence bigint NOT NULL,
    recorded_at timestamptz NOT NULL,
    CONSTRAINT governance_prunedfact_sequence_check CHECK ((sequence >= 0))
);
ALTER TABLE governance_prunedfact ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_pulse (
    id bigint NOT NULL,
    name varchar(40) NOT NULL,
    at timestamptz NOT NULL,
    details jsonb NOT NULL
);
ALTER TABLE governance_pulse ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_reservation (
    reservation_id uuid NOT NULL,
    route_request_id varchar(90) NOT NULL,
    external_request_id varchar(70) NOT NULL,
    task_id varchar(100) NOT NULL,
    job_id uuid NOT NULL,
    attempt integer NOT NULL,
    fencing_token bigint NOT NULL,
    agent varchar(60) NOT NULL,
    amount numeric(24,12) NOT NULL,
    currency varchar(3) NOT NULL,
    state varchar(8) NOT NULL,
    reserved_at timestamptz NOT NULL,
    decision_id uuid NOT NULL,
    CONSTRAINT governance_reservation_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT governance_reservation_fencing_token_check CHECK ((fencing_token >= 0)),
    CONSTRAINT reservation_not_negative CHECK ((amount >= (0)::numeric)),
    CONSTRAINT reservation_state_is_known CHECK (((state)::text = ANY ((ARRAY['held'::varchar, 'in_doubt'::varchar, 'settled'::varchar, 'released'::varchar, 'failed'::varchar])::text[])))
);
CREATE TABLE governance_reservationhold (
    id bigint NOT NULL,
    reservation_id uuid NOT NULL,
    window_id bigint NOT NULL
);
ALTER TABLE governance_reservationhold ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_resolution (
    reservation_id uuid NOT NULL,
    ended_as varchar(8) NOT NULL,
    cost numeric(24,12) NOT NULL,
    cost_basis varchar(8) NOT NULL,
    input_tokens bigint,
    cached_input_tokens bigint,
    output_tokens bigint,
    reasoning_tokens bigint,
    overrun boolean NOT NULL,
    usage_missing boolean NOT NULL,
    provider_response_id varchar(200) NOT NULL,
    error_code varchar(100) NOT NULL,
    content_sha256 varchar(64) NOT NULL,
    resolved_by varchar(160) NOT NULL,
    reason text NOT NULL,
    resolved_at timestamptz NOT NULL,
    CONSTRAINT governance_resolution_cached_input_tokens_check CHECK ((cached_input_tokens >= 0)),
    CONSTRAINT governance_resolution_input_tokens_check CHECK ((input_tokens >= 0)),
    CONSTRAINT governance_resolution_output_tokens_check CHECK ((output_tokens >= 0)),
    CONSTRAINT governance_resolution_reasoning_tokens_check CHECK ((reasoning_tokens >= 0)),
    CONSTRAINT resolution_end_is_known CHECK (((ended_as)::text = ANY ((ARRAY['settled'::varchar, 'released'::varchar, 'failed'::varchar])::text[]))),
    CONSTRAINT resolution_not_negative CHECK ((cost >= (0)::numeric)),
    CONSTRAINT resolution_nothing_costs_nothing CHECK (((NOT ((cost_basis)::text = 'none'::text)) OR (cost = (0)::numeric))),
    CONSTRAINT resolution_released_costs_nothing CHECK (((NOT ((ended_as)::text = 'released'::text)) OR ((cost_basis)::text = 'none'::text))),
    CONSTRAINT resolution_usage_is_whole CHECK ((((input_tokens IS NULL) AND (output_tokens IS NULL)) OR ((input_tokens IS NOT NULL) AND (output_tokens IS NOT NULL))))
);
CREATE TABLE governance_routedecision (
    decision_id uuid NOT NULL,
    route_request_id varchar(90) NOT NULL,
    external_request_id varchar(70) NOT NULL,
    call integer NOT NULL,
    task_id varchar(100) NOT NULL,
    job_id uuid NOT NULL,
    attempt integer NOT NULL,
    fencing_token bigint NOT NULL,
    agent varchar(60) NOT NULL,
    job_type varchar(60) NOT NULL,
    risk_tier varchar(6) NOT NULL,
    runtime varchar(40) NOT NULL,
    estimated_input_tokens bigint NOT NULL,
    max_output_tokens bigint NOT NULL,
    requirements jsonb NOT NULL,
    content_sha256 varchar(64) NOT NULL,
    decision varchar(8) NOT NULL,
    reason varchar(60) NOT NULL,
    "position" smallint,
    price_version varchar(80) NOT NULL,
    considered jsonb NOT NULL,
    decided_at timestamptz NOT NULL,
    model_id bigint,
    price_id bigint,
    policy_id bigint,
    CONSTRAINT governance_routedecision_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT governance_routedecision_call_check CHECK ((call >= 0)),
    CONSTRAINT governance_routedecision_estimated_input_tokens_check CHECK ((estimated_input_tokens >= 0)),
    CONSTRAINT governance_routedecision_fencing_token_check CHECK ((fencing_token >= 0)),
    CONSTRAINT governance_routedecision_max_output_tokens_check CHECK ((max_output_tokens >= 0)),
    CONSTRAINT governance_routedecision_position_check CHECK (("position" >= 0)),
    CONSTRAINT route_decision_counts_from_1 CHECK (((attempt >= 1) AND (call >= 1))),
    CONSTRAINT route_decision_model_iff_issued CHECK (((((decision)::text = 'issued'::text) AND (model_id IS NOT NULL) AND (policy_id IS NOT NULL) AND ("position" >= 1) AND (price_id IS NOT NULL) AND ((reason)::text = ''::text)) OR (((decision)::text = 'refused'::text) AND (model_id IS NULL) AND ("position" IS NULL) AND (price_id IS NULL) AND (NOT ((reason)::text = ''::text)))))
);
CREATE TABLE governance_routepolicy (
    id bigint NOT NULL,
    audit_seq bigint NOT NULL,
    audit_head bytea NOT NULL,
    agent varchar(60) NOT NULL,
    job_type varchar(60) NOT NULL,
    risk_tier varchar(6) NOT NULL,
    created_at timestamptz NOT NULL,
    retired_at timestamptz,
    CONSTRAINT governance_routepolicy_audit_seq_check CHECK ((audit_seq >= 0)),
    CONSTRAINT route_policy_risk_tier_is_known CHECK (((risk_tier)::text = ANY ((ARRAY[''::varchar, 'low'::varchar, 'medium'::varchar, 'high'::varchar])::text[])))
);
ALTER TABLE governance_routepolicy ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_routepolicymodel (
    id bigint NOT NULL,
    "position" smallint NOT NULL,
    model_id bigint NOT NULL,
    policy_id bigint NOT NULL,
    CONSTRAINT governance_routepolicymodel_position_check CHECK (("position" >= 0)),
    CONSTRAINT route_policy_position_from_1 CHECK (("position" >= 1))
);
ALTER TABLE governance_routepolicymodel ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_savedview (
    id bigint NOT NULL,
    model varchar(100) NOT NULL,
    name varchar(60) NOT NULL,
    query varchar(1000) NOT NULL,
    shared boolean NOT NULL,
    owner_id integer NOT NULL
);
ALTER TABLE governance_savedview ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE governance_streamhold (
    id bigint NOT NULL,
    sink varchar(40) NOT NULL,
    stream varchar(160) NOT NULL,
    tries integer NOT NULL,
    last_error text NOT NULL,
    failed_at timestamptz NOT NULL,
    next_try_at timestamptz NOT NULL,
    parked_at timestamptz,
    fact_id bigint NOT NULL,
    CONSTRAINT governance_streamhold_tries_check CHECK ((tries >= 0))
);
ALTER TABLE governance_streamhold ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_approval (
    id bigint NOT NULL,
    execution_digest varchar(64) NOT NULL,
    decision varchar(10) NOT NULL,
    decided_by varchar(160) NOT NULL,
    decided_at timestamptz NOT NULL,
    reason text NOT NULL,
    valid_until timestamptz,
    job_id bigint NOT NULL,
    CONSTRAINT approval_expires_after_its_end CHECK (((NOT ((decision)::text = 'expired'::text)) OR (valid_until <= decided_at))),
    CONSTRAINT approval_has_reason CHECK ((NOT (reason = ''::text))),
    CONSTRAINT approval_is_valid_until CHECK (((NOT ((decision)::text = 'approved'::text)) OR (valid_until > decided_at)))
);
ALTER TABLE jobs_approval ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_attempt (
    id bigint NOT NULL,
    number integer NOT NULL,
    fencing_token bigint NOT NULL,
    worker_id varchar(120) NOT NULL,
    runtime varchar(40) NOT NULL,
    lease_seconds integer NOT NULL,
    claimed_at timestamptz NOT NULL,
    deadline_at timestamptz,
    claim_key uuid,
    claim_answers integer NOT NULL,
    ended_at timestamptz,
    outcome varchar(20),
    outcome_sha256 varchar(64) NOT NULL,
    needs_review boolean NOT NULL,
    retryable boolean,
    error_code varchar(80) NOT NULL,
    error_message text NOT NULL,
    result jsonb,
    result_pointer varchar(1000) NOT NULL,
    progress jsonb,
    session_id bigint NOT NULL,
    job_id bigint NOT NULL,
    governed boolean NOT NULL,
    CONSTRAINT attempt_counts_from_1 CHECK ((number >= 1)),
    CONSTRAINT attempt_outcome_iff_ended CHECK ((((ended_at IS NULL) AND (outcome IS NULL)) OR ((ended_at IS NOT NULL) AND (outcome IS NOT NULL)))),
    CONSTRAINT jobs_attempt_claim_answers_check CHECK ((claim_answers >= 0)),
    CONSTRAINT jobs_attempt_fencing_token_check CHECK ((fencing_token >= 0)),
    CONSTRAINT jobs_attempt_lease_seconds_check CHECK ((lease_seconds >= 0)),
    CONSTRAINT jobs_attempt_number_check CHECK ((number >= 0))
);
ALTER TABLE jobs_attempt ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_escalation (
    id bigint NOT NULL,
    attempt integer NOT NULL,
    raised_by varchar(160) NOT NULL,
    raised_at timestamptz NOT NULL,
    reason text NOT NULL,
    notify_to varchar(200) NOT NULL,
    resolution varchar(10),
    resolved_by varchar(160) NOT NULL,
    resolved_at timestamptz,
    resolve_reason text NOT NULL,
    job_id bigint NOT NULL,
    CONSTRAINT escalation_resolution_iff_dated CHECK ((((resolution IS NULL) AND (resolved_at IS NULL)) OR ((resolution IS NOT NULL) AND (resolved_at IS NOT NULL)))),
    CONSTRAINT jobs_escalation_attempt_check CHECK ((attempt >= 0))
);
ALTER TABLE jobs_escalation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_execution (
    id bigint NOT NULL,
    external_request_id varchar(80) NOT NULL,
    attempt integer NOT NULL,
    fencing_token bigint NOT NULL,
    reservation_id uuid,
    mode varchar(4) NOT NULL,
    runtime varchar(40) NOT NULL,
    execution_digest varchar(64) NOT NULL,
    request_sha256 varchar(64) NOT NULL,
    state varchar(12) NOT NULL,
    refusal_reason varchar(60) NOT NULL,
    decided_at timestamptz NOT NULL,
    deadline_at timestamptz NOT NULL,
    resulted_at timestamptz,
    result_sha256 varchar(64) NOT NULL,
    outcome_sha256 varchar(64) NOT NULL,
    result jsonb,
    result_pointer varchar(1000) NOT NULL,
    usage jsonb,
    error_code varchar(80) NOT NULL,
    job_id bigint NOT NULL,
    permit_id bigint NOT NULL,
    CONSTRAINT execution_result_iff_dated CHECK ((((resulted_at IS NULL) AND ((state)::text = ANY ((ARRAY['unknown'::varchar, 'refused'::varchar])::text[]))) OR ((resulted_at IS NOT NULL) AND ((state)::text = ANY ((ARRAY['succeeded'::varchar, 'failed'::varchar, 'not_started'::varchar])::text[]))))),
    CONSTRAINT jobs_execution_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT jobs_execution_fencing_token_check CHECK ((fencing_token >= 0))
);
ALTER TABLE jobs_execution ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_executionevidence (
    id bigint NOT NULL,
    given_by varchar(160) NOT NULL,
    given_at timestamptz NOT NULL,
    attempt integer NOT NULL,
    fencing_token bigint NOT NULL,
    outcome varchar(12) NOT NULL,
    content_sha256 varchar(64) NOT NULL,
    content jsonb NOT NULL,
    execution_id bigint NOT NULL,
    CONSTRAINT jobs_executionevidence_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT jobs_executionevidence_fencing_token_check CHECK ((fencing_token >= 0))
);
ALTER TABLE jobs_executionevidence ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_job (
    id bigint NOT NULL,
    audit_seq bigint NOT NULL,
    audit_head bytea NOT NULL,
    job_id uuid NOT NULL,
    task_id varchar(100) NOT NULL,
    risk_tier varchar(6) NOT NULL,
    priority smallint NOT NULL,
    state varchar(16) NOT NULL,
    paused boolean NOT NULL,
    available_at timestamptz NOT NULL,
    attempt integer NOT NULL,
    max_attempts integer NOT NULL,
    fencing_token bigint NOT NULL,
    revision bigint NOT NULL,
    fact_sequence bigint NOT NULL,
    reflection_count integer NOT NULL,
    unresolved_executions integer NOT NULL,
    review_required boolean NOT NULL,
    execution_approval_required boolean NOT NULL,
    approval_valid_until timestamptz,
    submitted_by varchar(160) NOT NULL,
    requested_by varchar(160) NOT NULL,
    asked_again_by varchar(160) NOT NULL,
    deadline_at timestamptz,
    expires_if_not_started_at timestamptz,
    attempt_timeout_seconds integer,
    created_at timestamptz NOT NULL,
    state_since timestamptz NOT NULL,
    finished_at timestamptz,
    agent_id bigint NOT NULL,
    job_type_id bigint NOT NULL,
    CONSTRAINT job_active_has_attempt CHECK (((NOT ((state)::text = 'active'::text)) OR (attempt >= 1))),
    CONSTRAINT job_approved_before_queued CHECK (((NOT ((state)::text = ANY ((ARRAY['queued'::varchar, 'active'::varchar])::text[]))) OR (NOT execution_approval_required) OR (approval_valid_until IS NOT NULL))),
    CONSTRAINT job_attempts_are_bounded CHECK ((attempt <= max_attempts)),
    CONSTRAINT job_finished_iff_dated CHECK ((((finished_at IS NOT NULL) AND ((state)::text = ANY ((ARRAY['completed'::varchar, 'stopped'::varchar, 'failed'::varchar])::text[]))) OR ((NOT ((state)::text = ANY ((ARRAY['completed'::varchar, 'stopped'::varchar, 'failed'::varchar])::text[]))) AND (finished_at IS NULL)))),
    CONSTRAINT job_high_risk_is_reviewed_and_approved CHECK (((NOT ((risk_tier)::text = 'high'::text)) OR (execution_approval_required AND review_required))),
    CONSTRAINT job_priority_is_known CHECK (((priority >= 0) AND (priority <= 3))),
    CONSTRAINT job_risk_tier_is_known CHECK (((risk_tier)::text = ANY ((ARRAY['low'::varchar, 'medium'::varchar, 'high'::varchar])::text[]))),
    CONSTRAINT job_state_is_known CHECK (((state)::text = ANY ((ARRAY['held'::varchar, 'queued'::varchar, 'active'::varchar, 'review_required'::varchar, 'needs_rework'::varchar, 'in_doubt'::varchar, 'escalated'::varchar, 'completed'::varchar, 'stopped'::varchar, 'failed'::varchar])::text[]))),
    CONSTRAINT job_task_id_is_plain CHECK ((NOT ((task_id)::text ~ '[/\u0001-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]'::text))),
    CONSTRAINT job_token_at_least_attempt CHECK ((fencing_token >= attempt)),
    CONSTRAINT job_unresolved_is_not_claimable CHECK (((NOT ((state)::text = ANY ((ARRAY['held'::varchar, 'queued'::varchar, 'needs_rework'::varchar])::text[]))) OR (unresolved_executions = 0))),
    CONSTRAINT jobs_job_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT jobs_job_attempt_timeout_seconds_check CHECK ((attempt_timeout_seconds >= 0)),
    CONSTRAINT jobs_job_audit_seq_check CHECK ((audit_seq >= 0)),
    CONSTRAINT jobs_job_fact_sequence_check CHECK ((fact_sequence >= 0)),
    CONSTRAINT jobs_job_fencing_token_check CHECK ((fencing_token >= 0)),
    CONSTRAINT jobs_job_max_attempts_check CHECK ((max_attempts >= 0)),
    CONSTRAINT jobs_job_reflection_count_check CHECK ((reflection_count >= 0)),
    CONSTRAINT jobs_job_revision_check CHECK ((revision >= 0)),
    CONSTRAINT jobs_job_unresolved_executions_check CHECK ((unresolved_executions >= 0))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02');
ALTER TABLE jobs_job ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_jobtype (
    id bigint NOT NULL,
    name varchar(60) NOT NULL,
    runtime varchar(40) NOT NULL,
    uses_model boolean NOT NULL,
    inputs_schema jsonb NOT NULL,
    max_attempts integer NOT NULL,
    max_attempts_ceiling integer NOT NULL,
    lease_seconds integer NOT NULL,
    attempt_timeout_seconds integer,
    backoff_base_seconds integer NOT NULL,
    backoff_cap_seconds integer NOT NULL,
    approval_valid_seconds integer NOT NULL,
    enabled boolean NOT NULL,
    agent_id bigint NOT NULL,
    audit_head bytea NOT NULL,
    audit_seq bigint NOT NULL,
    CONSTRAINT job_type_backoff_below_cap CHECK ((backoff_cap_seconds >= backoff_base_seconds)),
    CONSTRAINT job_type_ceiling_above_default CHECK (((max_attempts >= 1) AND (max_attempts_ceiling >= max_attempts))),
    CONSTRAINT job_type_lease_in_range CHECK (((lease_seconds >= 60) AND (lease_seconds <= 3600))),
    CONSTRAINT job_type_times_are_positive CHECK (((approval_valid_seconds >= 1) AND ((attempt_timeout_seconds IS NULL) OR (attempt_timeout_seconds >= 1)))),
    CONSTRAINT jobs_jobtype_approval_valid_seconds_check CHECK ((approval_valid_seconds >= 0)),
    CONSTRAINT jobs_jobtype_attempt_timeout_seconds_check CHECK ((attempt_timeout_seconds >= 0)),
    CONSTRAINT jobs_jobtype_audit_seq_check CHECK ((audit_seq >= 0)),
    CONSTRAINT jobs_jobtype_backoff_base_seconds_check CHECK ((backoff_base_seconds >= 0)),
    CONSTRAINT jobs_jobtype_backoff_cap_seconds_check CHECK ((backoff_cap_seconds >= 0)),
    CONSTRAINT jobs_jobtype_lease_seconds_check CHECK ((lease_seconds >= 0)),
    CONSTRAINT jobs_jobtype_max_attempts_ceiling_check CHECK ((max_attempts_ceiling >= 0)),
    CONSTRAINT jobs_jobtype_max_attempts_check CHECK ((max_attempts >= 0))
);
ALTER TABLE jobs_jobtype ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_lease (
    job_id bigint NOT NULL,
    attempt integer NOT NULL,
    fencing_token bigint NOT NULL,
    worker_id varchar(120) NOT NULL,
    lease_seconds integer NOT NULL,
    granted_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    progress jsonb,
    session_id bigint NOT NULL,
    CONSTRAINT jobs_lease_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT jobs_lease_fencing_token_check CHECK ((fencing_token >= 0)),
    CONSTRAINT jobs_lease_lease_seconds_check CHECK ((lease_seconds >= 0))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');
CREATE TABLE jobs_liveauthorization (
    id bigint NOT NULL,
    runtime varchar(40) NOT NULL,
    granted_by varchar(160) NOT NULL,
    granted_at timestamptz NOT NULL,
    reason text NOT NULL,
    ends_at timestamptz NOT NULL,
    revoked_at timestamptz,
    revoked_by varchar(160) NOT NULL,
    revoke_reason text NOT NULL,
    agent_id bigint NOT NULL,
    CONSTRAINT live_authorization_ends CHECK ((ends_at > granted_at)),
    CONSTRAINT live_authorization_has_reason CHECK ((NOT (reason = ''::text)))
);
ALTER TABLE jobs_liveauthorization ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_permit (
    id bigint NOT NULL,
    permit_id uuid NOT NULL,
    attempt integer NOT NULL,
    fencing_token bigint NOT NULL,
    external_request_id varchar(80) NOT NULL,
    session_generation bigint NOT NULL,
    dispatcher_epoch uuid NOT NULL,
    mode varchar(4) NOT NULL,
    reservation_id uuid,
    state varchar(8) NOT NULL,
    issued_at timestamptz NOT NULL,
    deadline_at timestamptz NOT NULL,
    ended_at timestamptz,
    job_id bigint NOT NULL,
    session_id bigint NOT NULL,
    CONSTRAINT jobs_permit_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT jobs_permit_fencing_token_check CHECK ((fencing_token >= 0)),
    CONSTRAINT jobs_permit_session_generation_check CHECK ((session_generation >= 0)),
    CONSTRAINT permit_ended_iff_not_issued CHECK ((((ended_at IS NULL) AND ((state)::text = 'issued'::text)) OR ((NOT ((state)::text = 'issued'::text)) AND (ended_at IS NOT NULL))))
);
ALTER TABLE jobs_permit ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_reconciliation (
    id bigint NOT NULL,
    verdict varchar(12) NOT NULL,
    decided_by varchar(160) NOT NULL,
    decided_at timestamptz NOT NULL,
    reason text NOT NULL,
    evidence jsonb NOT NULL,
    execution_id bigint NOT NULL,
    CONSTRAINT reconciliation_has_reason CHECK ((NOT (reason = ''::text)))
);
ALTER TABLE jobs_reconciliation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_reflection (
    id bigint NOT NULL,
    number integer NOT NULL,
    attempt integer NOT NULL,
    what_worked text NOT NULL,
    what_failed text NOT NULL,
    pattern_observed text NOT NULL,
    context_type varchar(100) NOT NULL,
    tool_sequence jsonb NOT NULL,
    success_signal text NOT NULL,
    failure_signal text NOT NULL,
    sensitivity_level varchar(20) NOT NULL,
    content_sha256 varchar(64) NOT NULL,
    created_at timestamptz NOT NULL,
    agent_id bigint NOT NULL,
    job_id bigint NOT NULL,
    CONSTRAINT jobs_reflection_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT jobs_reflection_number_check CHECK ((number >= 0)),
    CONSTRAINT reflection_counts_from_1 CHECK ((number >= 1))
);
ALTER TABLE jobs_reflection ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_retryextension (
    id bigint NOT NULL,
    from_max integer NOT NULL,
    to_max integer NOT NULL,
    ceiling integer NOT NULL,
    granted_by varchar(160) NOT NULL,
    granted_at timestamptz NOT NULL,
    reason text NOT NULL,
    job_id bigint NOT NULL,
    CONSTRAINT extension_has_reason CHECK ((NOT (reason = ''::text))),
    CONSTRAINT extension_raises_within_ceiling CHECK (((to_max > from_max) AND (to_max <= ceiling))),
    CONSTRAINT jobs_retryextension_ceiling_check CHECK ((ceiling >= 0)),
    CONSTRAINT jobs_retryextension_from_max_check CHECK ((from_max >= 0)),
    CONSTRAINT jobs_retryextension_to_max_check CHECK ((to_max >= 0))
);
ALTER TABLE jobs_retryextension ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_review (
    id bigint NOT NULL,
    attempt integer NOT NULL,
    verdict varchar(12) NOT NULL,
    decided_by varchar(160) NOT NULL,
    decided_at timestamptz NOT NULL,
    reason text NOT NULL,
    job_id bigint NOT NULL,
    CONSTRAINT jobs_review_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT review_has_reason CHECK ((NOT (reason = ''::text)))
);
ALTER TABLE jobs_review ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_skill (
    id bigint NOT NULL,
    task_type varchar(60) NOT NULL,
    context_type varchar(100) NOT NULL,
    pattern text NOT NULL,
    pattern_sha256 varchar(64) NOT NULL,
    tool_sequence jsonb NOT NULL,
    occurrences integer NOT NULL,
    successes integer NOT NULL,
    failures integer NOT NULL,
    confidence double precision NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    agent_id bigint NOT NULL,
    CONSTRAINT jobs_skill_failures_check CHECK ((failures >= 0)),
    CONSTRAINT jobs_skill_occurrences_check CHECK ((occurrences >= 0)),
    CONSTRAINT jobs_skill_successes_check CHECK ((successes >= 0)),
    CONSTRAINT skill_confidence_is_share CHECK (((confidence >= (0.0)::double precision) AND (confidence <= (1.0)::double precision)))
);
ALTER TABLE jobs_skill ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_source (
    id bigint NOT NULL,
    name varchar(60) NOT NULL,
    enabled boolean NOT NULL,
    audit_head bytea NOT NULL,
    audit_seq bigint NOT NULL,
    CONSTRAINT jobs_source_audit_seq_check CHECK ((audit_seq >= 0))
);
ALTER TABLE jobs_source ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
CREATE TABLE jobs_task (
    job_id bigint NOT NULL,
    source varchar(60) NOT NULL,
    title varchar(200) NOT NULL,
    goal text NOT NULL,
    inputs jsonb NOT NULL,
    output_required boolean NOT NULL,
    rollback_required boolean NOT NULL,
    labels jsonb NOT NULL,
    submitted_at timestamptz,
    content_sha256 varchar(64) NOT NULL,
    envelope jsonb NOT NULL,
    execution_digest varchar(64) NOT NULL
);
CREATE TABLE jobs_upload (
    id bigint NOT NULL,
    upload_id uuid NOT NULL,
    artifact_id uuid,
    attempt integer NOT NULL,
    fencing_token bigint NOT NULL,
    name varchar(200) NOT NULL,
    media_type varchar(100) NOT NULL,
    size_bytes bigint NOT NULL,
    sha256 varchar(64) NOT NULL,
    object_key varchar(200) NOT NULL,
    state varchar(8) NOT NULL,
    granted_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    stored_at timestamptz,
    fact_id varchar(120) NOT NULL,
    job_id bigint NOT NULL,
    CONSTRAINT jobs_upload_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT jobs_upload_fencing_token_check CHECK ((fencing_token >= 0)),
    CONSTRAINT jobs_upload_size_bytes_check CHECK ((size_bytes >= 0)),
    CONSTRAINT upload_artifact_iff_stored CHECK ((((artifact_id IS NULL) AND ((state)::text = 'granted'::text) AND (stored_at IS NULL)) OR ((artifact_id IS NOT NULL) AND ((state)::text = 'stored'::text) AND (stored_at IS NOT NULL))))
);
ALTER TABLE jobs_upload ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY;
COPY agents_activation (id, operation_id, request_sha256, answer, created_at, agent_id, session_id) FROM stdin;
1	58efe834-bc94-4b04-b920-ab58b9d7e8d4	e855431bf3c70a8eec17233694ce5c6bdc1911a624cbd65667e21ddda03141ce	{"agent": "hermes", "state": "current", "boot_id": "5e2d9509-750d-464b-8e3f-9317d95913aa", "cell_id": "cell-1", "rebound": false, "credential": {"prefix": "qFy7S1Xz1kE5", "scopes": ["admit", "read", "work"], "expires_at": null}, "session_id": "01a22c1e-9878-7360-bbc5-5af8bd375015", "dispatcher_epoch": "9ae6cb0e-ebe8-49f4-8875-506bbca8e2d2", "session_generation": 1, "heartbeat_interval_seconds": 20}	2026-11-30 11:02:12.339837+00	1	2
2	01a22c1e-9a21-764f-9629-e4049c84d24f	4dca58d8a22c7665ab170be63165b68fe9ef7c2968b579fe73f4db4f53fd86c4	{"agent": "openclaw", "state": "current", "boot_id": "01a22c1e-9a21-764f-9629-e4030329bd13", "cell_id": "cell-7", "rebound": false, "credential": {"prefix": "ZStu7KSjGDR1", "scopes": ["admit", "read", "work"], "expires_at": null}, "session_id": "01a22c1e-9a3b-7723-988e-c20ae3d0ed8a", "dispatcher_epoch": "9ae6cb0e-ebe8-49f4-8875-506bbca8e2d2", "session_generation": 1, "heartbeat_interval_seconds": 20}	2026-11-30 11:02:12.791742+00	2	3
\.
COPY agents_admissionchange (id, barrier_id, expected_generation, state, generation, actor, reason, at, agent_id) FROM stdin;
1	before-the-upgrade	1	closed	2	submitter:ops	not needed	2026-11-30 11:02:11.980133+00	3
\.
COPY agents_agent (id, audit_seq, audit_head, name, max_risk_tier, runtime, enabled, expected, approve_cells, fresh_seconds, stale_seconds, admission, admission_generation, barrier_id, created_at) FROM stdin;
3	3	\\x0929e7d971fee6195ba219b4d59f065af81f7e154c6e57494c8a799ab8a640b0	agent_zero	high	command	t	t	f	60	180	closed	2	before-the-upgrade	2026-11-30 11:02:10.478126+00
1	5	\\xfbc60023430e1b26c79ef22acc2f7dcb6c5d4cd1609ae215361a2df0d9340be2	hermes	high	command	t	t	f	60	180	open	1		2026-11-30 11:02:10.468951+00
2	3	\\x4162864cea22650e7fecda10d8ff016f20402ba569d9d7e9a38c6e92259dc709	openclaw	medium	command	t	t	f	60	180	open	1		2026-11-30 11:02:10.474364+00
\.
COPY agents_cellapproval (id, cell_id, approved_by, approved_at, reason, withdrawn_at, withdrawn_by, withdraw_reason, agent_id) FROM stdin;
\.
COPY agents_credential (id, prefix, hashed_key, scopes, created_at, created_by, expires_at, revoked_at, revoked_by, last_used_at, certificate_sha256, note, agent_id, submitter_id) FROM stdin;
1	cvl97tjvZxgS	sha512$$5c90f6eb81c923f8992f73247134a2e90a39de2397ae0393bb9157adfd434460eb0b3f65bf64951b61fb2b3d7951ff72684994cbfbe4485c439df5751be064d6	{admit,control,read,submit}	2026-11-30 11:02:11.28369+00	command:setup	\N	\N		2026-11-30 11:02:11.664651+00			\N	1
2	EAcKlEUbPFde	sha512$$da61e5f5a43d02e536aac08d692713f033245f2a4cb4022ef28e7105df1c70eaac4fabf71dd2be3f177b31d16db68a2ebfc902908864587ebcd62cba9e148da3	{admit,read,work}	2026-11-30 11:02:11.287844+00	command:setup	\N	\N		2026-11-30 11:02:12.008218+00			1	\N
4	qFy7S1Xz1kE5	sha512$$ef66fa01bdc3dfc2f06119f70f1d0da73afd0d26d867dde8d0d92fc3c67d3eb51840c30f6cd1bf7ab34d71bd65f41f683904ea02cced3e640d24f667dd0a9abf	{admit,read,work}	2026-11-30 11:02:11.294263+00	command:setup	\N	\N		2026-11-30 11:02:12.334075+00		the governed cell	1	\N
3	ZStu7KSjGDR1	sha512$$92a5d77e1b8a64d687344c71e6d19e278f3d182f774c64c549f46937964b4e3f26cf76790e897fabc02dd3a18ff3eff9f5315f5f2e81e3449b08b259ff9dd8a8	{admit,read,work}	2026-11-30 11:02:11.291164+00	command:setup	\N	\N		2026-11-30 11:02:12.78215+00			2	\N
\.
COPY agents_fleet (id, audit_seq, audit_head, dispatcher_epoch, epoch_rotated_at) FROM stdin;
1	3	\\x4d7e8efd9428aa45fee78ecc0c41682dbf9d28c9faf04476e418bfe348344553	9ae6cb0e-ebe8-49f4-8875-506bbca8e2d2	2026-11-30 11:02:10.463271+00
\.
COPY agents_maintenanceinhibit (id, owner, reason, starts_at, ends_at, lifted_at, lifted_by, lift_reason, agent_id) FROM stdin;
1	user:ben	until it is needed	2026-11-30 11:02:11.988247+00	\N	\N			3
\.
COPY agents_presence (session_id, last_heartbeat_at, last_claim_at, runtime) FROM stdin;
1	2026-11-30 11:02:12.015841+00	2026-11-30 11:02:12.015841+00	
2	2026-11-30 11:02:12.339837+00	\N	command
3	2026-11-30 11:02:12.827673+00	\N	command
\.
COPY agents_runtimeswitch (id, from_runtime, to_runtime, state, step, reopen, started_by, reason, started_at, switched_at, finished_at, error, steps, agent_id, inhibit_id) FROM stdin;
\.
COPY agents_session (id, session_id, kind, state, worker_id, cell_id, boot_id, generation, dispatcher_epoch, activation_operation_id, protocol_version, runtime, capabilities, created_at, superseded_at, agent_id) FROM stdin;
1	01a22c1e-972d-75d5-a682-3938618c307a	implicit	current	worker-1			1	9ae6cb0e-ebe8-49f4-8875-506bbca8e2d2				{}	2026-11-30 11:02:12.014487+00	\N	1
2	01a22c1e-9878-7360-bbc5-5af8bd375015	activated	current		cell-1	5e2d9509-750d-464b-8e3f-9317d95913aa	1	9ae6cb0e-ebe8-49f4-8875-506bbca8e2d2	58efe834-bc94-4b04-b920-ab58b9d7e8d4	1.0	command	{}	2026-11-30 11:02:12.339837+00	\N	1
3	01a22c1e-9a3b-7723-988e-c20ae3d0ed8a	activated	current		cell-7	01a22c1e-9a21-764f-9629-e4030329bd13	1	9ae6cb0e-ebe8-49f4-8875-506bbca8e2d2	01a22c1e-9a21-764f-9629-e4049c84d24f	1	command	{}	2026-11-30 11:02:12.791742+00	\N	2
\.
COPY agents_submitter (id, audit_seq, audit_head, name, created_at, owner_id) FROM stdin;
1	2	\\xa4b67f1bb8d331deadf98a5c5f1df3573993b65603898d8b03f781f766c2de22	ops	2026-11-30 11:02:11.278785+00	1
\.
COPY auth_group (id, name) FROM stdin;
1	viewer
2	operator
3	approver
4	governor
\.
COPY auth_group_permissions (id, group_id, permission_id) FROM stdin;
1	1	128
2	1	256
3	1	132
4	1	260
5	1	136
6	1	264
7	1	140
8	1	268
9	1	144
10	1	272
11	1	148
12	1	276
13	1	152
14	1	280
15	1	156
16	1	44
17	1	48
18	1	180
19	1	52
20	1	184
21	1	56
22	1	60
23	1	188
24	1	192
25	1	64
26	1	196
27	1	68
28	1	200
29	1	72
30	1	204
31	1	76
32	1	208
33	1	80
34	1	84
35	1	212
36	1	88
37	1	216
38	1	92
39	1	220
40	1	96
41	1	248
42	1	224
43	1	100
44	1	228
45	1	104
46	1	232
47	1	108
48	1	236
49	1	112
50	1	240
51	1	116
52	1	252
53	1	244
54	1	120
55	1	124
56	2	128
57	2	256
58	2	132
59	2	260
60	2	136
61	2	264
62	2	140
63	2	268
64	2	144
65	2	272
66	2	148
67	2	276
68	2	152
69	2	280
70	2	156
71	2	158
72	2	159
73	2	160
74	2	161
75	2	162
76	2	163
77	2	164
78	2	165
79	2	166
80	2	167
81	2	44
82	2	48
83	2	176
84	2	180
85	2	52
86	2	184
87	2	56
88	2	60
89	2	188
90	2	192
91	2	64
92	2	196
93	2	68
94	2	200
95	2	72
96	2	204
97	2	76
98	2	208
99	2	80
100	2	84
101	2	212
102	2	88
103	2	216
104	2	92
105	2	220
106	2	96
107	2	248
108	2	224
109	2	100
110	2	228
111	2	104
112	2	232
113	2	108
114	2	236
115	2	112
116	2	240
117	2	116
118	2	252
119	2	244
120	2	120
121	2	124
122	3	128
123	3	256
124	3	132
125	3	260
126	3	136
127	3	264
128	3	140
129	3	268
130	3	144
131	3	272
132	3	148
133	3	276
134	3	152
135	3	280
136	3	156
137	3	157
138	3	158
139	3	164
140	3	44
141	3	48
142	3	180
143	3	52
144	3	184
145	3	56
146	3	60
147	3	188
148	3	192
149	3	64
150	3	196
151	3	68
152	3	200
153	3	72
154	3	204
155	3	76
156	3	208
157	3	80
158	3	84
159	3	212
160	3	88
161	3	216
162	3	92
163	3	220
164	3	96
165	3	248
166	3	224
167	3	100
168	3	228
169	3	104
170	3	232
171	3	108
172	3	236
173	3	112
174	3	240
175	3	116
176	3	252
177	3	244
178	3	120
179	3	124
180	4	128
181	4	256
182	4	132
183	4	260
184	4	136
185	4	264
186	4	140
187	4	268
188	4	144
189	4	272
190	4	148
191	4	276
192	4	152
193	4	280
194	4	156
195	4	157
196	4	158
197	4	159
198	4	160
199	4	161
200	4	162
201	4	163
202	4	164
203	4	165
204	4	166
205	4	167
206	4	168
207	4	169
208	4	170
209	4	171
210	4	44
211	4	172
212	4	174
213	4	175
214	4	48
215	4	176
216	4	173
217	4	180
218	4	52
219	4	184
220	4	56
221	4	60
222	4	188
223	4	192
224	4	64
225	4	196
226	4	68
227	4	200
228	4	72
229	4	204
230	4	76
231	4	208
232	4	80
233	4	84
234	4	212
235	4	88
236	4	216
237	4	92
238	4	220
239	4	96
240	4	248
241	4	224
242	4	100
243	4	228
244	4	104
245	4	232
246	4	108
247	4	236
248	4	112
249	4	240
250	4	116
251	4	252
252	4	244
253	4	120
254	4	124
\.
COPY auth_permission (id, name, content_type_id, codename) FROM stdin;
1	Can add log entry	1	add_logentry
2	Can change log entry	1	change_logentry
3	Can delete log entry	1	delete_logentry
4	Can view log entry	1	view_logentry
5	Can add permission	2	add_permission
6	Can change permission	2	change_permission
7	Can delete permission	2	delete_permission
8	Can view permission	2	view_permission
9	Can add group	3	add_group
10	Can change group	3	change_group
11	Can delete group	3	delete_group
12	Can view group	3	view_group
13	Can add user	4	add_user
14	Can change user	4	change_user
15	Can delete user	4	delete_user
16	Can view user	4	view_user
17	Can add content type	5	add_contenttype
18	Can change content type	5	change_contenttype
19	Can delete content type	5	delete_contenttype
20	Can view content type	5	view_contenttype
21	Can add session	6	add_session
22	Can change session	6	change_session
23	Can delete session	6	delete_session
24	Can view session	6	view_session
25	Can add access attempt	7	add_accessattempt
26	Can change access attempt	7	change_accessattempt
27	Can delete access attempt	7	delete_accessattempt
28	Can view access attempt	7	view_accessattempt
29	Can add access log	8	add_accesslog
30	Can change access log	8	change_accesslog
31	Can delete access log	8	delete_accesslog
32	Can view access log	8	view_accesslog
33	Can add access failure	9	add_accessfailurelog
34	Can change access failure	9	change_accessfailurelog
35	Can delete access failure	9	delete_accessfailurelog
36	Can view access failure	9	view_accessfailurelog
37	Can add access attempt expiration	10	add_accessattemptexpiration
38	Can change access attempt expiration	10	change_accessattemptexpiration
39	Can delete access attempt expiration	10	delete_accessattemptexpiration
40	Can view access attempt expiration	10	view_accessattemptexpiration
41	Can add audit checkpoint	11	add_auditcheckpoint
42	Can change audit checkpoint	11	change_auditcheckpoint
43	Can delete audit checkpoint	11	delete_auditcheckpoint
44	Can view audit checkpoint	11	view_auditcheckpoint
45	Can add audit event	12	add_auditevent
46	Can change audit event	12	change_auditevent
47	Can delete audit event	12	delete_auditevent
48	Can view audit event	12	view_auditevent
49	Can add fact	13	add_fact
50	Can change fact	13	change_fact
51	Can delete fact	13	delete_fact
52	Can view fact	13	view_fact
53	Can add idempotency record	14	add_idempotencyrecord
54	Can change idempotency record	14	change_idempotencyrecord
55	Can delete idempotency record	14	delete_idempotencyrecord
56	Can view idempotency record	14	view_idempotencyrecord
57	Can add audit checkpoint leaf	15	add_auditcheckpointleaf
58	Can change audit checkpoint leaf	15	change_auditcheckpointleaf
59	Can delete audit checkpoint leaf	15	delete_auditcheckpointleaf
60	Can view audit checkpoint leaf	15	view_auditcheckpointleaf
61	Can add bulk run	16	add_bulkrun
62	Can change bulk run	16	change_bulkrun
63	Can delete bulk run	16	delete_bulkrun
64	Can view bulk run	16	view_bulkrun
65	Can add bulk item	17	add_bulkitem
66	Can change bulk item	17	change_bulkitem
67	Can delete bulk item	17	delete_bulkitem
68	Can view bulk item	17	view_bulkitem
69	Can add event minute	18	add_eventminute
70	Can change event minute	18	change_eventminute
71	Can delete event minute	18	delete_eventminute
72	Can view event minute	18	view_eventminute
73	Can add event minute cursor	19	add_eventminutecursor
74	Can change event minute cursor	19	change_eventminutecursor
75	Can delete event minute cursor	19	delete_eventminutecursor
76	Can view event minute cursor	19	view_eventminutecursor
77	Can add saved view	20	add_savedview
78	Can change saved view	20	change_savedview
79	Can delete saved view	20	delete_savedview
80	Can view saved view	20	view_savedview
81	Can add fact sink	21	add_factsink
82	Can change fact sink	21	change_factsink
83	Can delete fact sink	21	delete_factsink
84	Can view fact sink	21	view_factsink
85	Can add fact stream	22	add_factstream
86	Can change fact stream	22	change_factstream
87	Can delete fact stream	22	delete_factstream
88	Can view fact stream	22	view_factstream
89	Can add pulse	23	add_pulse
90	Can change pulse	23	change_pulse
91	Can delete pulse	23	delete_pulse
92	Can view pulse	23	view_pulse
93	Can add held fact stream	24	add_streamhold
94	Can change held fact stream	24	change_streamhold
95	Can delete held fact stream	24	delete_streamhold
96	Can view held fact stream	24	view_streamhold
97	Can add reservation	25	add_reservation
98	Can change reservation	25	change_reservation
99	Can delete reservation	25	delete_reservation
100	Can view reservation	25	view_reservation
101	Can add budget	26	add_budget
102	Can change budget	26	change_budget
103	Can delete budget	26	delete_budget
104	Can view budget	26	view_budget
105	Can add budget window	27	add_budgetwindow
106	Can change budget window	27	change_budgetwindow
107	Can delete budget window	27	delete_budgetwindow
108	Can view budget window	27	view_budgetwindow
109	Can add language model	28	add_languagemodel
110	Can change language model	28	change_languagemodel
111	Can delete language model	28	delete_languagemodel
112	Can view language model	28	view_languagemodel
113	Can add price	29	add_price
114	Can change price	29	change_price
115	Can delete price	29	delete_price
116	Can view price	29	view_price
117	Can add price tier	30	add_pricetier
118	Can change price tier	30	change_pricetier
119	Can delete price tier	30	delete_pricetier
120	Can view price tier	30	view_pricetier
121	Can add resolution	31	add_resolution
122	Can change resolution	31	change_resolution
123	Can delete resolution	31	delete_resolution
124	Can view resolution	31	view_resolution
125	Can add reservation hold	32	add_reservationhold
126	Can change reservation hold	32	change_reservationhold
127	Can delete reservation hold	32	delete_reservationhold
128	Can view reservation hold	32	view_reservationhold
129	Can add route decision	33	add_routedecision
130	Can change route decision	33	change_routedecision
131	Can delete route decision	33	delete_routedecision
132	Can view route decision	33	view_routedecision
133	Can add route policy	34	add_routepolicy
134	Can change route policy	34	change_routepolicy
135	Can delete route policy	34	delete_routepolicy
136	Can view route policy	34	view_routepolicy
137	Can add route policy model	35	add_routepolicymodel
138	Can change route policy model	35	change_routepolicymodel
139	Can delete route policy model	35	delete_routepolicymodel
140	Can view route policy model	35	view_routepolicymodel
141	Can add pruned fact	36	add_prunedfact
142	Can change pruned fact	36	change_prunedfact
143	Can delete pruned fact	36	delete_prunedfact
144	Can view pruned fact	36	view_prunedfact
145	Can add session	37	add_session
146	Can change session	37	change_session
147	Can delete session	37	delete_session
148	Can view session	37	view_session
149	Can add agent	38	add_agent
150	Can change agent	38	change_agent
151	Can delete agent	38	delete_agent
152	Can view agent	38	view_agent
153	Can add fleet	39	add_fleet
154	Can change fleet	39	change_fleet
155	Can delete fleet	39	delete_fleet
156	Can view fleet	39	view_fleet
157	Can approve, reject or withdraw the execution of a held job	39	approve_execution
158	Can accept, reject or send back what a job delivered	39	review_job
159	Can send a failed job back for rework and extend its attempts	39	extend_retries
160	Can stop a job	39	stop_job
161	Can pause and resume a job	39	pause_job
162	Can resolve an escalated job	39	resolve_escalation
163	Can reconcile an execution whose outcome is unknown	39	reconcile_execution
164	Can see inputs, results and error texts	39	view_payloads
165	Can export lists	39	export_lists
166	Can open, drain and close an agent	39	set_admission
167	Can set and lift a maintenance inhibit	39	inhibit_fleet
168	Can switch the runtime of an agent	39	switch_runtime
169	Can change the settings of an agent	39	configure_agent
170	Can add and change job types and sources	39	configure_intake
171	Can approve a cell of an agent	39	approve_cell
172	Can create, rotate and revoke credentials	39	manage_credentials
173	Can rotate the dispatcher epoch	39	rotate_epoch
174	Can change budgets, model routes and prices	39	adjust_budget
175	Can authorize live execution	39	authorize_live
176	Can release a held stream of facts	39	release_facts
177	Can add presence	40	add_presence
178	Can change presence	40	change_presence
179	Can delete presence	40	delete_presence
180	Can view presence	40	view_presence
181	Can add submitter	41	add_submitter
182	Can change submitter	41	change_submitter
183	Can delete submitter	41	delete_submitter
184	Can view submitter	41	view_submitter
185	Can add credential	42	add_credential
186	Can change credential	42	change_credential
187	Can delete credential	42	delete_credential
188	Can view credential	42	view_credential
189	Can add maintenance inhibit	43	add_maintenanceinhibit
190	Can change maintenance inhibit	43	change_maintenanceinhibit
191	Can delete maintenance inhibit	43	delete_maintenanceinhibit
192	Can view maintenance inhibit	43	view_maintenanceinhibit
193	Can add activation	44	add_activation
194	Can change activation	44	change_activation
195	Can delete activation	44	delete_activation
196	Can view activation	44	view_activation
197	Can add admission change	45	add_admissionchange
198	Can change admission change	45	change_admissionchange
199	Can delete admission change	45	delete_admissionchange
200	Can view admission change	45	view_admissionchange
201	Can add cell approval	46	add_cellapproval
202	Can change cell approval	46	change_cellapproval
203	Can delete cell approval	46	delete_cellapproval
204	Can view cell approval	46	view_cellapproval
205	Can add runtime switch	47	add_runtimeswitch
206	Can change runtime switch	47	change_runtimeswitch
207	Can delete runtime switch	47	delete_runtimeswitch
208	Can view runtime switch	47	view_runtimeswitch
209	Can add job	48	add_job
210	Can change job	48	change_job
211	Can delete job	48	delete_job
212	Can view job	48	view_job
213	Can add source	49	add_source
214	Can change source	49	change_source
215	Can delete source	49	delete_source
216	Can view source	49	view_source
217	Can add task	50	add_task
218	Can change task	50	change_task
219	Can delete task	50	delete_task
220	Can view task	50	view_task
221	Can add job type	51	add_jobtype
222	Can change job type	51	change_jobtype
223	Can delete job type	51	delete_jobtype
224	Can view job type	51	view_jobtype
225	Can add reflection	52	add_reflection
226	Can change reflection	52	change_reflection
227	Can delete reflection	52	delete_reflection
228	Can view reflection	52	view_reflection
229	Can add retry extension	53	add_retryextension
230	Can change retry extension	53	change_retryextension
231	Can delete retry extension	53	delete_retryextension
232	Can view retry extension	53	view_retryextension
233	Can add review	54	add_review
234	Can change review	54	change_review
235	Can delete review	54	delete_review
236	Can view review	54	view_review
237	Can add skill	55	add_skill
238	Can change skill	55	change_skill
239	Can delete skill	55	delete_skill
240	Can view skill	55	view_skill
241	Can add lease	56	add_lease
242	Can change lease	56	change_lease
243	Can delete lease	56	delete_lease
244	Can view lease	56	view_lease
245	Can add escalation	57	add_escalation
246	Can change escalation	57	change_escalation
247	Can delete escalation	57	delete_escalation
248	Can view escalation	57	view_escalation
249	Can add attempt	58	add_attempt
250	Can change attempt	58	change_attempt
251	Can delete attempt	58	delete_attempt
252	Can view attempt	58	view_attempt
253	Can add approval	59	add_approval
254	Can change approval	59	change_approval
255	Can delete approval	59	delete_approval
256	Can view approval	59	view_approval
257	Can add permit	60	add_permit
258	Can change permit	60	change_permit
259	Can delete permit	60	delete_permit
260	Can view permit	60	view_permit
261	Can add execution	61	add_execution
262	Can change execution	61	change_execution
263	Can delete execution	61	delete_execution
264	Can view execution	61	view_execution
265	Can add reconciliation	62	add_reconciliation
266	Can change reconciliation	62	change_reconciliation
267	Can delete reconciliation	62	delete_reconciliation
268	Can view reconciliation	62	view_reconciliation
269	Can add execution evidence	63	add_executionevidence
270	Can change execution evidence	63	change_executionevidence
271	Can delete execution evidence	63	delete_executionevidence
272	Can view execution evidence	63	view_executionevidence
273	Can add live authorization	64	add_liveauthorization
274	Can change live authorization	64	change_liveauthorization
275	Can delete live authorization	64	delete_liveauthorization
276	Can view live authorization	64	view_liveauthorization
277	Can add upload	65	add_upload
278	Can change upload	65	change_upload
279	Can delete upload	65	delete_upload
280	Can view upload	65	view_upload
\.
COPY auth_user (id, password, last_login, is_superuser, username, first_name, last_name, email, is_staff, is_active, date_joined) FROM stdin;
1	pbkdf2_sha256$1000000$TaEV5PvgGUpo5kZTYeha1J$QlY8We0jrUCK/shEad7JMkG9Z9+6xWAIdm25PbS0qO0=	\N	f	anna				t	t	2026-11-30 11:02:10.541886+00
2	pbkdf2_sha256$1000000$YupPd5atRko715U5DDa2Wi$TiXeKlbCHS5LzWl2ANosO4x2KZ2qvE013oASLF8zD08=	\N	f	ben				t	t	2026-11-30 11:02:10.935231+00
\.
COPY auth_user_groups (id, user_id, group_id) FROM stdin;
1	1	4
2	2	4
\.
COPY auth_user_user_permissions (id, user_id, permission_id) FROM stdin;
\.
COPY axes_accessattempt (id, user_agent, ip_address, username, http_accept, path_info, attempt_time, get_data, post_data, failures_since_start) FROM stdin;
\.
COPY axes_accessattemptexpiration (access_attempt_id, expires_at) FROM stdin;
\.
COPY axes_accessfailurelog (id, user_agent, ip_address, username, http_accept, path_info, attempt_time, locked_out) FROM stdin;
\.
COPY axes_accesslog (id, user_agent, ip_address, username, http_accept, path_info, attempt_time, logout_time, session_hash) FROM stdin;
\.
COPY django_admin_log (id, action_time, object_id, object_repr, action_flag, change_message, content_type_id, user_id) FROM stdin;
\.
COPY django_content_type (id, app_label, model) FROM stdin;
1	admin	logentry
2	auth	permission
3	auth	group
4	auth	user
5	contenttypes	contenttype
6	sessions	session
7	axes	accessattempt
8	axes	accesslog
9	axes	accessfailurelog
10	axes	accessattemptexpiration
11	governance	auditcheckpoint
12	governance	auditevent
13	governance	fact
14	governance	idempotencyrecord
15	governance	auditcheckpointleaf
16	governance	bulkrun
17	governance	bulkitem
18	governance	eventminute
19	governance	eventminutecursor
20	governance	savedview
21	governance	factsink
22	governance	factstream
23	governance	pulse
24	governance	streamhold
25	governance	reservation
26	governance	budget
27	governance	budgetwindow
28	governance	languagemodel
29	governance	price
30	governance	pricetier
31	governance	resolution
32	governance	reservationhold
33	governance	routedecision
34	governance	routepolicy
35	governance	routepolicymodel
36	governance	prunedfact
37	agents	session
38	agents	agent
39	agents	fleet
40	agents	presence
41	agents	submitter
42	agents	credential
43	agents	maintenanceinhibit
44	agents	activation
45	agents	admissionchange
46	agents	cellapproval
47	agents	runtimeswitch
48	jobs	job
49	jobs	source
50	jobs	task
51	jobs	jobtype
52	jobs	reflection
53	jobs	retryextension
54	jobs	review
55	jobs	skill
56	jobs	lease
57	jobs	escalation
58	jobs	attempt
59	jobs	approval
60	jobs	permit
61	jobs	execution
62	jobs	reconciliation
63	jobs	executionevidence
64	jobs	liveauthorization
65	jobs	upload
\.
COPY django_migrations (id, app, name, applied) FROM stdin;
1	contenttypes	0001_initial	2026-11-30 11:02:07.332767+00
2	auth	0001_initial	2026-11-30 11:02:07.385096+00
3	admin	0001_initial	2026-11-30 11:02:07.40103+00
4	admin	0002_logentry_remove_auto_add	2026-11-30 11:02:07.405655+00
5	admin	0003_logentry_add_action_flag_choices	2026-11-30 11:02:07.409623+00
6	governance	0001_initial	2026-11-30 11:02:07.455605+00
7	governance	0002_append_only	2026-11-30 11:02:07.458055+00
8	agents	0001_initial	2026-11-30 11:02:07.577723+00
9	agents	0002_never_deleted	2026-11-30 11:02:07.5799+00
10	agents	0003_operator_verbs	2026-11-30 11:02:07.581617+00
11	agents	0004_acting_agents	2026-11-30 11:02:07.668867+00
12	agents	0005_acting_append_only	2026-11-30 11:02:07.671062+00
13	agents	0006_export_lists	2026-11-30 11:02:07.673692+00
14	agents	0007_configure_verb	2026-11-30 11:02:07.676301+00
15	agents	0008_named_in_lists	2026-11-30 11:02:07.687386+00
16	agents	0009_release_verb	2026-11-30 11:02:07.689684+00
17	agents	0010_intake_verb	2026-11-30 11:02:07.691886+00
18	agents	0011_pending_sessions_index	2026-11-30 11:02:07.703588+00
19	agents	0012_implicit_sessions_index	2026-11-30 11:02:07.71554+00
20	contenttypes	0002_remove_content_type_name	2026-11-30 11:02:07.735943+00
21	auth	0002_alter_permission_name_max_length	2026-11-30 11:02:07.74685+00
22	auth	0003_alter_user_email_max_length	2026-11-30 11:02:07.753024+00
23	auth	0004_alter_user_username_opts	2026-11-30 11:02:07.758041+00
24	auth	0005_alter_user_last_login_null	2026-11-30 11:02:07.764025+00
25	auth	0006_require_contenttypes_0002	2026-11-30 11:02:07.764714+00
26	auth	0007_alter_validators_add_error_messages	2026-11-30 11:02:07.76957+00
27	auth	0008_alter_user_username_max_length	2026-11-30 11:02:07.779569+00
28	auth	0009_alter_user_last_name_max_length	2026-11-30 11:02:07.784828+00
29	auth	0010_alter_group_name_max_length	2026-11-30 11:02:07.796632+00
30	auth	0011_update_proxy_permissions	2026-11-30 11:02:07.808475+00
31	auth	0012_alter_user_first_name_max_length	2026-11-30 11:02:07.814092+00
32	axes	0001_initial	2026-11-30 11:02:07.829598+00
33	axes	0002_auto_20151217_2044	2026-11-30 11:02:07.857737+00
34	axes	0003_auto_20160322_0929	2026-11-30 11:02:07.867218+00
35	axes	0004_auto_20181024_1538	2026-11-30 11:02:07.875841+00
36	axes	0005_remove_accessattempt_trusted	2026-11-30 11:02:07.879371+00
37	axes	0006_remove_accesslog_trusted	2026-11-30 11:02:07.882978+00
38	axes	0007_alter_accessattempt_unique_together	2026-11-30 11:02:07.904755+00
39	axes	0008_accessfailurelog	2026-11-30 11:02:07.91883+00
40	axes	0009_add_session_hash	2026-11-30 11:02:07.922357+00
41	axes	0010_accessattemptexpiration	2026-11-30 11:02:07.928798+00
42	governance	0003_console	2026-11-30 11:02:08.044446+00
43	governance	0004_relay	2026-11-30 11:02:08.110596+00
44	governance	0005_money	2026-11-30 11:02:08.531918+00
45	governance	0006_money_guards	2026-11-30 11:02:08.5352+00
46	governance	0007_doubt_is_not_released	2026-11-30 11:02:08.536654+00
47	governance	0008_sinks_kept	2026-11-30 11:02:08.538125+00
48	governance	0009_named_in_lists	2026-11-30 11:02:08.541646+00
49	governance	0010_held_streams_listed	2026-11-30 11:02:08.547967+00
50	governance	0011_pruned_facts	2026-11-30 11:02:08.554541+00
51	governance	0012_pruned_facts_kept	2026-11-30 11:02:08.556138+00
52	governance	0013_bulk_item_revisions	2026-11-30 11:02:08.562124+00
53	jobs	0001_initial	2026-11-30 11:02:09.540467+00
54	jobs	0002_guards	2026-11-30 11:02:09.543973+00
55	jobs	0003_executions	2026-11-30 11:02:10.019742+00
56	jobs	0004_execution_guards	2026-11-30 11:02:10.023125+00
57	jobs	0005_upload	2026-11-30 11:02:10.07891+00
58	jobs	0006_index_paused	2026-11-30 11:02:10.108726+00
59	jobs	0007_approvals_end	2026-11-30 11:02:10.159789+00
60	jobs	0008_one_person_by_any_door	2026-11-30 11:02:10.163122+00
61	jobs	0009_kinds_on_the_chain	2026-11-30 11:02:10.244617+00
62	jobs	0010_source_never_deleted	2026-11-30 11:02:10.247758+00
63	jobs	0011_task_id_is_plain	2026-11-30 11:02:10.28383+00
64	jobs	0012_task_id_was_plain	2026-11-30 11:02:10.286997+00
65	jobs	0013_index_high_risk	2026-11-30 11:02:10.318113+00
66	sessions	0001_initial	2026-11-30 11:02:10.331601+00
\.
COPY django_session (session_key, session_data, expire_date) FROM stdin;
\.
COPY governance_auditcheckpoint (id, number, at, first_event_id, last_event_id, leaf_count, root, prev_hash, hash, envelope) FROM stdin;
1	1	2026-11-30 11:02:12.242352+00	1	50	25	\\x260c28d8d34fa8e0861f5e4d61e759d05895b4bee95700a8979b20cc6bc4a1c2	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x63e2f4b7e7c9202670a1f34cb20748d123d59507ad0672bf0ed3817c9e61399f	{"payload": "eyJhdCI6IjIwMjYtMTEtMzBUMTE6MDI6MTIuMjQyMzUyKzAwOjAwIiwiZmlyc3RfZXZlbnRfaWQiOjEsImxhc3RfZXZlbnRfaWQiOjUwLCJsZWFmX2NvdW50IjoyNSwibnVtYmVyIjoxLCJwcmV2X2hhc2giOiIwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwIiwicm9vdCI6IjI2MGMyOGQ4ZDM0ZmE4ZTA4NjFmNWU0ZDYxZTc1OWQwNTg5NWI0YmVlOTU3MDBhODk3OWIyMGNjNmJjNGExYzIifQ==", "signatures": [{"sig": "Koc3yMNTDN6JTa8gtOmRcubRWURg3KuBGwgRDhhSxDmraROqoCtHSKTotNzggQR2a5TOrJA0xGFB5AlZic6dDA==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.audit-checkpoint+json"}
2	2	2026-11-30 11:02:13.483029+00	51	73	8	\\xf0a53e44fa0e0ea5888ad9692d66d32e0d0cdced54a2eb401f4a4be8c51f81f5	\\x63e2f4b7e7c9202670a1f34cb20748d123d59507ad0672bf0ed3817c9e61399f	\\xf04f6c2dd3e0bda45fc77b1efb744acb52996941188d7d4ece24f3da92828848	{"payload": "eyJhdCI6IjIwMjYtMTEtMzBUMTE6MDI6MTMuNDgzMDI5KzAwOjAwIiwiZmlyc3RfZXZlbnRfaWQiOjUxLCJsYXN0X2V2ZW50X2lkIjo3MywibGVhZl9jb3VudCI6OCwibnVtYmVyIjoyLCJwcmV2X2hhc2giOiI2M2UyZjRiN2U3YzkyMDI2NzBhMWYzNGNiMjA3NDhkMTIzZDU5NTA3YWQwNjcyYmYwZWQzODE3YzllNjEzOTlmIiwicm9vdCI6ImYwYTUzZTQ0ZmEwZTBlYTU4ODhhZDk2OTJkNjZkMzJlMGQwY2RjZWQ1NGEyZWI0MDFmNGE0YmU4YzUxZjgxZjUifQ==", "signatures": [{"sig": "w3/aNjsHklhADqcp45vBcUsS7K+InYPryETf+qEpdAbPIsg8XLDEqYeqxyeyKJvc6IJo2/w7YfXE3yRsQghSDA==", "keyid": "53fda7b80bcfeba8ec81f850eaf6c9e925f93375afa9a5032678bb1bed07cf72"}], "payloadType": "application/vnd.fencepost.audit-checkpoint+json"}
\.
COPY governance_auditcheckpointleaf (id, subject, seq, hash, checkpoint_id) FROM stdin;
1	agent:agent_zero	3	\\x0929e7d971fee6195ba219b4d59f065af81f7e154c6e57494c8a799ab8a640b0	1
2	agent:hermes	4	\\x876274b8ca02d83a84d88fbaa41b44574471d5de87d555d4ae9c1152d9cb06f3	1
3	agent:openclaw	2	\\x407bb7a7fffbd319d57a36b95d5b7b8cbf154daa1310b6a4399098cb52943803	1
4	budget:1	1	\\xaa9716fc8b5a58c9b19e2b9cdee6fef0c7082996a636d6a145415dff7b80ba52	1
5	budget:2	1	\\x8546a8c53231ebdbdb51590ac83b4e21a617577b7632c2a16030d33c934575b4	1
6	fleet	3	\\x4d7e8efd9428aa45fee78ecc0c41682dbf9d28c9faf04476e418bfe348344553	1
7	job:01a22c1e-95d5-7240-90f0-0ecfcab16482	1	\\x8c8ba027b36402b147666c714f1f038b82a7fead20fbc9fa50f5b2181fc0f72a	1
8	job:01a22c1e-95f4-72a1-90aa-59ab833148b8	1	\\xc11158ef027af7b2971ad1209673e21f2a92a7e20413878dd5890bcbbdebaace	1
9	job:01a22c1e-9606-7430-a999-55b813f8fe9a	3	\\x2c166fa6b35c7be8160016aee2fe3b27b59da7399f9e473364779716e9ede911	1
10	job:01a22c1e-961a-7643-ae7c-519b8306b0da	2	\\x67d916a02ea1b13834e311583376b745a9e5ffe2e2a2f1fc85970a11a5ae2a0f	1
11	job:01a22c1e-962f-7477-952a-792b9a8b7968	2	\\xd98ae1b412cde7330840ea9677931d268c4bb3246a30cb96e8d002b9efda91bf	1
12	job:01a22c1e-9644-7692-a954-f6c1b4acca1a	4	\\xc8bf274c9b8799382477dbccb43de0ceb238d3e7ec51f57f4ce5ef4da9fdb39c	1
13	job:01a22c1e-9658-768f-b66d-baecc2ccba48	5	\\x4e193be6875f2f02ca31c2cd51546d20c3e2a658307c708eb033f73a80b374a0	1
14	job:01a22c1e-9669-72d3-b055-cc914658c438	3	\\x45f465195f7ae3fbb5ea8054088d0b131a5ac16e9b61676d04db9382fd1a25f9	1
15	job:01a22c1e-9679-74ed-920c-2a644e357e1c	3	\\xd17e5c5957a8c71e06e428eacfd487119d8244da28bd43051e9542d35ca7d4a9	1
16	job:01a22c1e-968d-756f-82bb-72087b88cbaa	1	\\x69b7b54f8b64d5e8873a456c1babf385e6c4d823f5fa67b224783a59d2fc704c	1
17	job:01a22c1e-969f-7395-995a-5ca0fc047bb0	1	\\x926082352dd9877c2f647f659ff57aa44c040f1d3b0f3d83366de6d0d5af143f	1
18	job:01a22c1e-96b0-7660-882f-b9da19caf840	1	\\x701f1a9ba440445cacead470e88b4146905bf3bd4d86d8994fb4db1a1977a6df	1
19	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	1	\\x9cccd11f8d1d17550e915b536853bed1465b618d3fb973f65751713c7d92453f	1
20	job:01a22c1e-96d2-773d-8670-5c2a4d089ca7	1	\\x14e9045240528263fd0dcc4dd703bb0f67c1ec3b5c31448ce1dbc080dfc4a0a6	1
21	job:01a22c1e-96e4-77b2-886d-97ef25e32ebc	1	\\xc7660b0c6ddcbdedfdfd6d8051cffbfb48bab17c204ff3d31843b6b6c1fc477f	1
22	job_type:content_prep	1	\\x47361e7bb9ca5239f8667675baf08d5dce59ef1b2caf69e48c02e06c87c50f09	1
23	model:local/stand-in	2	\\x77f1052d6ba35a0a86fd3198ff0b6280a89b981b9890bac9289118d6f76a413a	1
24	route_policy:1	1	\\x363f662eede9157d5ea92f9703fa2882247526bd464b9233d26444f2c7892805	1
25	submitter:ops	2	\\xa4b67f1bb8d331deadf98a5c5f1df3573993b65603898d8b03f781f766c2de22	1
26	agent:hermes	5	\\xfbc60023430e1b26c79ef22acc2f7dcb6c5d4cd1609ae215361a2df0d9340be2	2
27	agent:openclaw	3	\\x4162864cea22650e7fecda10d8ff016f20402ba569d9d7e9a38c6e92259dc709	2
28	job:01a22c1e-968d-756f-82bb-72087b88cbaa	4	\\xeff256c3db4c4a1e3962c0567f3389450120a3de32c0410ca762afe630600d20	2
29	job:01a22c1e-969f-7395-995a-5ca0fc047bb0	5	\\x09e859c49f015947573eeaddbb262571b4481de3a4ffea6b3ba7755e15af0ae0	2
30	job:01a22c1e-96b0-7660-882f-b9da19caf840	6	\\x0a4de765ba310e5ad22cb8d7920a6dae82821d68a9a1219ea38de68819aace44	2
31	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	8	\\x7313fdbfe7c8e4a6747ecc9941514697b5800058203c9db229307fdc40975204	2
32	job:01a22c1e-96d2-773d-8670-5c2a4d089ca7	2	\\x17a5e11b3f0afa60c31ad6e13bcda7d432db93c4c57c5784f02e900fb4800b2d	2
33	job:01a22c1e-96e4-77b2-886d-97ef25e32ebc	2	\\xc2d2c51bfa1900937fcb27ed027323dfb78e22ce803636d32cc0e4c4bb6908ac	2
\.
COPY governance_auditevent (id, subject, seq, at, action, actor, reason, request_id, body, prev_hash, hash) FROM stdin;
1	fleet	1	2026-11-30 11:02:10.463271+00	fleet.installed	system:bootstrap	Part of every installation.		\\x7b22616374696f6e223a22666c6565742e696e7374616c6c6564222c226163746f72223a2273797374656d3a626f6f747374726170222c226166746572223a7b22646973706174636865725f65706f6368223a2239616536636230652d656265382d343966342d383837352d353036626263613865326432227d2c226174223a22323032362d31312d33305431313a30323a31302e3436333237312b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a2250617274206f6620657665727920696e7374616c6c6174696f6e2e222c22726571756573745f6964223a22222c22736571223a312c227375626a656374223a22666c656574227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x0b58ce9dd79a74b3adcd0d8aab2aa719467e0b6a63233a5469555a245e1a18d5
2	agent:hermes	1	2026-11-30 11:02:10.468951+00	agent.registered	system:bootstrap	Part of every installation.		\\x7b22616374696f6e223a226167656e742e72656769737465726564222c226163746f72223a2273797374656d3a626f6f747374726170222c226166746572223a7b226d61785f7269736b5f74696572223a226d656469756d227d2c226174223a22323032362d31312d33305431313a30323a31302e3436383935312b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a2250617274206f6620657665727920696e7374616c6c6174696f6e2e222c22726571756573745f6964223a22222c22736571223a312c227375626a656374223a226167656e743a6865726d6573227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\xf7b692b48c3c92355bdbdf9b900bd90619c3c631f8654fb50a575b4636a49210
3	agent:openclaw	1	2026-11-30 11:02:10.474364+00	agent.registered	system:bootstrap	Part of every installation.		\\x7b22616374696f6e223a226167656e742e72656769737465726564222c226163746f72223a2273797374656d3a626f6f747374726170222c226166746572223a7b226d61785f7269736b5f74696572223a226d656469756d227d2c226174223a22323032362d31312d33305431313a30323a31302e3437343336342b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a2250617274206f6620657665727920696e7374616c6c6174696f6e2e222c22726571756573745f6964223a22222c22736571223a312c227375626a656374223a226167656e743a6f70656e636c6177227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x774ef708e93a3a15a8290691177dfb1e8a0b8716360ef3467664ddfdf6da4de9
4	agent:agent_zero	1	2026-11-30 11:02:10.478126+00	agent.registered	system:bootstrap	Part of every installation.		\\x7b22616374696f6e223a226167656e742e72656769737465726564222c226163746f72223a2273797374656d3a626f6f747374726170222c226166746572223a7b226d61785f7269736b5f74696572223a2268696768227d2c226174223a22323032362d31312d33305431313a30323a31302e3437383132362b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a2250617274206f6620657665727920696e7374616c6c6174696f6e2e222c22726571756573745f6964223a22222c22736571223a312c227375626a656374223a226167656e743a6167656e745f7a65726f227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x0d6a2899c04739879217acab19c9f4d3e6977c010e809efc496f765d62e26bd0
5	agent:hermes	2	2026-11-30 11:02:10.537724+00	agent.configured	command:setup	first start		\\x7b22616374696f6e223a226167656e742e636f6e66696775726564222c226163746f72223a22636f6d6d616e643a7365747570222c226166746572223a7b226d61785f7269736b5f74696572223a2268696768227d2c226174223a22323032362d31312d33305431313a30323a31302e3533373732342b30303a3030222c226265666f7265223a7b226d61785f7269736b5f74696572223a226d656469756d227d2c2264657461696c73223a7b7d2c22726561736f6e223a226669727374207374617274222c22726571756573745f6964223a22222c22736571223a322c227375626a656374223a226167656e743a6865726d6573227d	\\xf7b692b48c3c92355bdbdf9b900bd90619c3c631f8654fb50a575b4636a49210	\\xc7a8c1df9d154e1edab35ecddfce216d451d66b89a61d388c1ac3133083ac310
6	fleet	2	2026-11-30 11:02:10.929718+00	operator.created	command:setup	first start		\\x7b22616374696f6e223a226f70657261746f722e63726561746564222c226163746f72223a22636f6d6d616e643a7365747570222c226166746572223a7b2267726f7570223a22676f7665726e6f72222c22757365726e616d65223a22616e6e61227d2c226174223a22323032362d31312d33305431313a30323a31302e3932393731382b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a226669727374207374617274222c22726571756573745f6964223a22222c22736571223a322c227375626a656374223a22666c656574227d	\\x0b58ce9dd79a74b3adcd0d8aab2aa719467e0b6a63233a5469555a245e1a18d5	\\xb7d937c44dc32eec4d2e9b2d933170926e9998aa0b5dbe35b58ac335cbbb5af5
7	fleet	3	2026-11-30 11:02:11.275688+00	operator.created	command:setup	first start		\\x7b22616374696f6e223a226f70657261746f722e63726561746564222c226163746f72223a22636f6d6d616e643a7365747570222c226166746572223a7b2267726f7570223a22676f7665726e6f72222c22757365726e616d65223a2262656e227d2c226174223a22323032362d31312d33305431313a30323a31312e3237353638382b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a226669727374207374617274222c22726571756573745f6964223a22222c22736571223a332c227375626a656374223a22666c656574227d	\\xb7d937c44dc32eec4d2e9b2d933170926e9998aa0b5dbe35b58ac335cbbb5af5	\\x4d7e8efd9428aa45fee78ecc0c41682dbf9d28c9faf04476e418bfe348344553
8	submitter:ops	1	2026-11-30 11:02:11.278785+00	submitter.registered	command:setup	first start		\\x7b22616374696f6e223a227375626d69747465722e72656769737465726564222c226163746f72223a22636f6d6d616e643a7365747570222c226166746572223a7b226f776e6572223a22616e6e61227d2c226174223a22323032362d31312d33305431313a30323a31312e3237383738352b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a226669727374207374617274222c22726571756573745f6964223a22222c22736571223a312c227375626a656374223a227375626d69747465723a6f7073227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x4725804918730d5747f96785dc2ef620d117ed1927740ffdf5ec35a869c73097
9	submitter:ops	2	2026-11-30 11:02:11.28369+00	credential.created	command:setup	first start		\\x7b22616374696f6e223a2263726564656e7469616c2e63726561746564222c226163746f72223a22636f6d6d616e643a7365747570222c226166746572223a7b2263657274696669636174655f736861323536223a22222c22657870697265735f6174223a6e756c6c2c22707265666978223a2263766c3937746a765a786753222c2273636f706573223a5b2261646d6974222c22636f6e74726f6c222c2272656164222c227375626d6974225d7d2c226174223a22323032362d31312d33305431313a30323a31312e3238333639302b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a226669727374207374617274222c22726571756573745f6964223a22222c22736571223a322c227375626a656374223a227375626d69747465723a6f7073227d	\\x4725804918730d5747f96785dc2ef620d117ed1927740ffdf5ec35a869c73097	\\xa4b67f1bb8d331deadf98a5c5f1df3573993b65603898d8b03f781f766c2de22
10	agent:hermes	3	2026-11-30 11:02:11.287844+00	credential.created	command:setup	first start		\\x7b22616374696f6e223a2263726564656e7469616c2e63726561746564222c226163746f72223a22636f6d6d616e643a7365747570222c226166746572223a7b2263657274696669636174655f736861323536223a22222c22657870697265735f6174223a6e756c6c2c22707265666978223a224541634b6c45556250466465222c2273636f706573223a5b2261646d6974222c2272656164222c22776f726b225d7d2c226174223a22323032362d31312d33305431313a30323a31312e3238373834342b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a226669727374207374617274222c22726571756573745f6964223a22222c22736571223a332c227375626a656374223a226167656e743a6865726d6573227d	\\xc7a8c1df9d154e1edab35ecddfce216d451d66b89a61d388c1ac3133083ac310	\\x566eebfbf362338eafabc07dfed674f320bea79c5f15ed504cdace785e850fa6
11	agent:openclaw	2	2026-11-30 11:02:11.291164+00	credential.created	command:setup	first start		\\x7b22616374696f6e223a2263726564656e7469616c2e63726561746564222c226163746f72223a22636f6d6d616e643a7365747570222c226166746572223a7b2263657274696669636174655f736861323536223a22222c22657870697265735f6174223a6e756c6c2c22707265666978223a225a537475374b536a47445231222c2273636f706573223a5b2261646d6974222c2272656164222c22776f726b225d7d2c226174223a22323032362d31312d33305431313a30323a31312e3239313136342b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a226669727374207374617274222c22726571756573745f6964223a22222c22736571223a322c227375626a656374223a226167656e743a6f70656e636c6177227d	\\x774ef708e93a3a15a8290691177dfb1e8a0b8716360ef3467664ddfdf6da4de9	\\x407bb7a7fffbd319d57a36b95d5b7b8cbf154daa1310b6a4399098cb52943803
12	agent:hermes	4	2026-11-30 11:02:11.294263+00	credential.created	command:setup	first start		\\x7b22616374696f6e223a2263726564656e7469616c2e63726561746564222c226163746f72223a22636f6d6d616e643a7365747570222c226166746572223a7b2263657274696669636174655f736861323536223a22222c22657870697265735f6174223a6e756c6c2c22707265666978223a22714679375331587a316b4535222c2273636f706573223a5b2261646d6974222c2272656164222c22776f726b225d7d2c226174223a22323032362d31312d33305431313a30323a31312e3239343236332b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a226669727374207374617274222c22726571756573745f6964223a22222c22736571223a342c227375626a656374223a226167656e743a6865726d6573227d	\\x566eebfbf362338eafabc07dfed674f320bea79c5f15ed504cdace785e850fa6	\\x876274b8ca02d83a84d88fbaa41b44574471d5de87d555d4ae9c1152d9cb06f3
13	model:local/stand-in	1	2026-11-30 11:02:11.30032+00	model.added	user:anna	models for the first jobs		\\x7b22616374696f6e223a226d6f64656c2e6164646564222c226163746f72223a22757365723a616e6e61222c226166746572223a7b226361706162696c6974696573223a5b5d2c22636f6e746578745f746f6b656e735f6d6178223a6e756c6c2c22656e61626c6564223a747275652c226f75747075745f746f6b656e735f6d6178223a6e756c6c7d2c226174223a22323032362d31312d33305431313a30323a31312e3330303332302b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a226d6f64656c7320666f7220746865206669727374206a6f6273222c22726571756573745f6964223a22222c22736571223a312c227375626a656374223a226d6f64656c3a6c6f63616c2f7374616e642d696e227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\xc0f5b85a5969748b80f169372a19e9be25ce4be6ad7a49a0e267693a182b30e2
14	model:local/stand-in	2	2026-11-30 11:02:11.302597+00	model.priced	user:anna	models for the first jobs		\\x7b22616374696f6e223a226d6f64656c2e707269636564222c226163746f72223a22757365723a616e6e61222c226166746572223a7b227261746573223a5b7b2261626f76655f696e7075745f746f6b656e73223a302c22696e7075745f72617465223a22312e3030222c226f75747075745f72617465223a22322e3030227d5d2c2276657273696f6e223a226f7665727269646520323032362d31312d33305431313a30323a31312e3330323539375a227d2c226174223a22323032362d31312d33305431313a30323a31312e3330323539372b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a226d6f64656c7320666f7220746865206669727374206a6f6273222c22726571756573745f6964223a22222c22736571223a322c227375626a656374223a226d6f64656c3a6c6f63616c2f7374616e642d696e227d	\\xc0f5b85a5969748b80f169372a19e9be25ce4be6ad7a49a0e267693a182b30e2	\\x77f1052d6ba35a0a86fd3198ff0b6280a89b981b9890bac9289118d6f76a413a
15	route_policy:1	1	2026-11-30 11:02:11.308315+00	route_policy.set	user:anna	models for the first jobs		\\x7b22616374696f6e223a22726f7574655f706f6c6963792e736574222c226163746f72223a22757365723a616e6e61222c226166746572223a7b226167656e74223a22222c226a6f625f74797065223a22222c226d6f64656c73223a5b226c6f63616c2f7374616e642d696e225d2c227269736b5f74696572223a22227d2c226174223a22323032362d31312d33305431313a30323a31312e3330383331352b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a226d6f64656c7320666f7220746865206669727374206a6f6273222c22726571756573745f6964223a22222c22736571223a312c227375626a656374223a22726f7574655f706f6c6963793a31227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x363f662eede9157d5ea92f9703fa2882247526bd464b9233d26444f2c7892805
16	budget:1	1	2026-11-30 11:02:11.316791+00	budget.added	user:anna	models for the first jobs		\\x7b22616374696f6e223a226275646765742e6164646564222c226163746f72223a22757365723a616e6e61222c226166746572223a7b22636170223a2235302e3030222c22656e61626c6564223a747275652c226b6579223a22222c2273636f7065223a22676c6f62616c222c22736f66745f636170223a6e756c6c2c2277696e646f77223a226e6f6e65227d2c226174223a22323032362d31312d33305431313a30323a31312e3331363739312b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a226d6f64656c7320666f7220746865206669727374206a6f6273222c22726571756573745f6964223a22222c22736571223a312c227375626a656374223a226275646765743a31227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\xaa9716fc8b5a58c9b19e2b9cdee6fef0c7082996a636d6a145415dff7b80ba52
17	budget:2	1	2026-11-30 11:02:11.321686+00	budget.added	user:anna	models for the first jobs		\\x7b22616374696f6e223a226275646765742e6164646564222c226163746f72223a22757365723a616e6e61222c226166746572223a7b22636170223a2232302e3030222c22656e61626c6564223a747275652c226b6579223a226865726d6573222c2273636f7065223a226167656e74222c22736f66745f636170223a6e756c6c2c2277696e646f77223a22646179227d2c226174223a22323032362d31312d33305431313a30323a31312e3332313638362b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a226d6f64656c7320666f7220746865206669727374206a6f6273222c22726571756573745f6964223a22222c22736571223a312c227375626a656374223a226275646765743a32227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x8546a8c53231ebdbdb51590ac83b4e21a617577b7632c2a16030d33c934575b4
18	job_type:content_prep	1	2026-11-30 11:02:11.327327+00	job_type.configured	user:anna	models for the first jobs		\\x7b22616374696f6e223a226a6f625f747970652e636f6e66696775726564222c226163746f72223a22757365723a616e6e61222c226166746572223a7b22757365735f6d6f64656c223a747275657d2c226174223a22323032362d31312d33305431313a30323a31312e3332373332372b30303a3030222c226265666f7265223a7b22757365735f6d6f64656c223a66616c73657d2c2264657461696c73223a7b7d2c22726561736f6e223a226d6f64656c7320666f7220746865206669727374206a6f6273222c22726571756573745f6964223a22222c22736571223a312c227375626a656374223a226a6f625f747970653a636f6e74656e745f70726570227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x47361e7bb9ca5239f8667675baf08d5dce59ef1b2caf69e48c02e06c87c50f09
19	job:01a22c1e-95d5-7240-90f0-0ecfcab16482	1	2026-11-30 11:02:11.668844+00	job.queued	submitter:ops		01a22c1e-95a5-75e1-a137-a1b572e1f3c1	\\x7b22616374696f6e223a226a6f622e717565756564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3636383834342b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2230313735363133613936353039623333623538643861633936333635663032343539313066643638366136666431333731653765386163363362643862376133222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393561352d373565312d613133372d613162353732653166336331222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393564352d373234302d393066302d306563666361623136343832227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x8c8ba027b36402b147666c714f1f038b82a7fead20fbc9fa50f5b2181fc0f72a
20	job:01a22c1e-95f4-72a1-90aa-59ab833148b8	1	2026-11-30 11:02:11.7006+00	job.held	submitter:ops		01a22c1e-95f1-777f-9a04-1596ca91d1d4	\\x7b22616374696f6e223a226a6f622e68656c64222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a2268656c64227d2c226174223a22323032362d31312d33305431313a30323a31312e3730303630302b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2234616163643937353663363361383134636231666537643535656431323335326264623937333231343435633836303238646637653764303865393265666139222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393566312d373737662d396130342d313539366361393164316434222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393566342d373261312d393061612d353961623833333134386238227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\xc11158ef027af7b2971ad1209673e21f2a92a7e20413878dd5890bcbbdebaace
21	job:01a22c1e-9606-7430-a999-55b813f8fe9a	1	2026-11-30 11:02:11.718281+00	job.held	submitter:ops		01a22c1e-9603-735c-8407-68648f1c5593	\\x7b22616374696f6e223a226a6f622e68656c64222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a2268656c64227d2c226174223a22323032362d31312d33305431313a30323a31312e3731383238312b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2262396665616138616462313039306562316532376562623061313638636563343739656132393635653234306232386334316231383731353838346236653030222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393630332d373335632d383430372d363836343866316335353933222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393630362d373433302d613939392d353562383133663866653961227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x07aad091452a9a5aa97736759ad48824c95b76cf07229480212cef481439fa4a
22	job:01a22c1e-961a-7643-ae7c-519b8306b0da	1	2026-11-30 11:02:11.738038+00	job.held	submitter:ops		01a22c1e-9616-7145-979c-d8dcaf9a0b7a	\\x7b22616374696f6e223a226a6f622e68656c64222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a2268656c64227d2c226174223a22323032362d31312d33305431313a30323a31312e3733383033382b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2236653433656364383030363834613636646662326161363537363030373434616161646565666261373037386165386331643831343365313263333533316630222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393631362d373134352d393739632d643864636166396130623761222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393631612d373634332d616537632d353139623833303662306461227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\xbc4924489dc624c62af8cbc5507efaf6183c69a9ca6ddf65d43e9b6707b4f90e
23	job:01a22c1e-962f-7477-952a-792b9a8b7968	1	2026-11-30 11:02:11.759231+00	job.queued	submitter:ops		01a22c1e-962b-7632-a88c-e283a0743007	\\x7b22616374696f6e223a226a6f622e717565756564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3735393233312b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2234616536393438643762373831323333336366353436643863313530373562373864366363363237363134656533313465656662343866326130386239396338222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393632622d373633322d613838632d653238336130373433303037222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393632662d373437372d393532612d373932623961386237393638227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\xa3587178a98a94a044d7dd385299f5db37af55022a363aeeba23e16d9fbb820a
24	job:01a22c1e-9644-7692-a954-f6c1b4acca1a	1	2026-11-30 11:02:11.779805+00	job.queued	submitter:ops		01a22c1e-9640-7086-96d9-6edac7164962	\\x7b22616374696f6e223a226a6f622e717565756564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3737393830352b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2234343733393665393663386139386566323861326264666438346335386161373666633463323632396263643630383164306666336663353762393666633762222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393634302d373038362d393664392d366564616337313634393632222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393634342d373639322d613935342d663663316234616363613161227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\xcf12db6c4bbbd62682bffba476047cca7a1a6ebb0c1b932b94852168df401514
25	job:01a22c1e-9658-768f-b66d-baecc2ccba48	1	2026-11-30 11:02:11.799688+00	job.queued	submitter:ops		01a22c1e-9655-7437-883e-d3465fb7c546	\\x7b22616374696f6e223a226a6f622e717565756564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3739393638382b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2238316438666531346363346235666163323835396663643130323263303662663661356263373434373531343339383130373436343461343331343833366331222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393635352d373433372d383833652d643334363566623763353436222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393635382d373638662d623636642d626165636332636362613438227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\xe7a77de2ca1ea7236d80419116670ff359acee3598123b90efacc58f3be12f24
26	job:01a22c1e-9669-72d3-b055-cc914658c438	1	2026-11-30 11:02:11.816976+00	job.queued	submitter:ops		01a22c1e-9666-72b0-a474-4c711bcb84e6	\\x7b22616374696f6e223a226a6f622e717565756564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3831363937362b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2235306564336432653332383538636635306537386165356563363531623635656432653038643361393037353033306438353539333066356537316439393331222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393636362d373262302d613437342d346337313162636238346536222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393636392d373264332d623035352d636339313436353863343338227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x4beef693611cee46b5630ea781eb6d1f25ac032449811e534e2fd30ed18b2891
27	job:01a22c1e-9679-74ed-920c-2a644e357e1c	1	2026-11-30 11:02:11.833393+00	job.queued	submitter:ops		01a22c1e-9677-709c-bf95-32cd3499ec38	\\x7b22616374696f6e223a226a6f622e717565756564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3833333339332b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2239336233663636643939376266616664393331353838613834656662303861303063393464663930353061643861666634613062353834663136643832393832222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393637372d373039632d626639352d333263643334393965633338222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393637392d373465642d393230632d326136343465333537653163227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x668ac99a1aa4aa33746269935e29cfb348b3cfd30456406b08a7949d33fb9261
28	job:01a22c1e-968d-756f-82bb-72087b88cbaa	1	2026-11-30 11:02:11.852873+00	job.queued	submitter:ops		01a22c1e-9688-7081-8f1c-3a586a162f7c	\\x7b22616374696f6e223a226a6f622e717565756564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3835323837332b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2236363164613932373833616531383330613534633966356432386139643363346238346361366638646439303438393464376163393138663934323062653461222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393638382d373038312d386631632d336135383661313632663763222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393638642d373536662d383262622d373230383762383863626161227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x69b7b54f8b64d5e8873a456c1babf385e6c4d823f5fa67b224783a59d2fc704c
29	job:01a22c1e-969f-7395-995a-5ca0fc047bb0	1	2026-11-30 11:02:11.871277+00	job.queued	submitter:ops		01a22c1e-969d-7154-90ab-abf4fe653298	\\x7b22616374696f6e223a226a6f622e717565756564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3837313237372b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2233663131646661643131633561656264333966383537363133626163313332343562616538383931303637613264636665353337623931633033666638633663222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393639642d373135342d393061622d616266346665363533323938222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393639662d373339352d393935612d356361306663303437626230227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x926082352dd9877c2f647f659ff57aa44c040f1d3b0f3d83366de6d0d5af143f
30	job:01a22c1e-96b0-7660-882f-b9da19caf840	1	2026-11-30 11:02:11.888039+00	job.queued	submitter:ops		01a22c1e-96ad-7408-91ad-d9d9b37de68b	\\x7b22616374696f6e223a226a6f622e717565756564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3838383033392b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2234656263353536653933663430623232383839323263366331636236386536643931633836623566373534613432346566666536323462656163636136393766222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393661642d373430382d393161642d643964396233376465363862222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393662302d373636302d383832662d623964613139636166383430227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x701f1a9ba440445cacead470e88b4146905bf3bd4d86d8994fb4db1a1977a6df
31	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	1	2026-11-30 11:02:11.904458+00	job.queued	submitter:ops		01a22c1e-96be-7205-8c47-fee24aedc899	\\x7b22616374696f6e223a226a6f622e717565756564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3930343435382b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2261303063623932616131383637343937643935386531383235303661666366633064313535633961396335663535626339363130646363626534646561373734222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393662652d373230352d386334372d666565323461656463383939222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393663302d373036662d623235362d653235646534633963666639227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x9cccd11f8d1d17550e915b536853bed1465b618d3fb973f65751713c7d92453f
32	job:01a22c1e-96d2-773d-8670-5c2a4d089ca7	1	2026-11-30 11:02:11.922652+00	job.queued	submitter:ops		01a22c1e-96d0-7251-a0f2-941cb1a6d678	\\x7b22616374696f6e223a226a6f622e717565756564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3932323635322b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2233343935356234366431386666353739636664653263613530326163333839326633303034353238623836666335613230333138353237323339356464333737222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393664302d373235312d613066322d393431636231613664363738222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393664322d373733642d383637302d356332613464303839636137227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\x14e9045240528263fd0dcc4dd703bb0f67c1ec3b5c31448ce1dbc080dfc4a0a6
33	job:01a22c1e-96e4-77b2-886d-97ef25e32ebc	1	2026-11-30 11:02:11.940208+00	job.queued	submitter:ops		01a22c1e-96e1-72e3-b82d-fc01d66cb129	\\x7b22616374696f6e223a226a6f622e717565756564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3934303230382b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2264646366633162373932363262393939653837346536306330626534353331656137633731393432663632663732633562616332316362303164373832373833222c227265766973696f6e223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393665312d373265332d623832642d666330316436366362313239222c22736571223a312c227375626a656374223a226a6f623a30316132326331652d393665342d373762322d383836642d393765663235653332656263227d	\\x0000000000000000000000000000000000000000000000000000000000000000	\\xc7660b0c6ddcbdedfdfd6d8051cffbfb48bab17c204ff3d31843b6b6c1fc477f
34	job:01a22c1e-9606-7430-a999-55b813f8fe9a	2	2026-11-30 11:02:11.948015+00	job.approved	user:ben	decided before the upgrade		\\x7b22616374696f6e223a226a6f622e617070726f766564222c226163746f72223a22757365723a62656e222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3934383031352b30303a3030222c226265666f7265223a7b227374617465223a2268656c64227d2c2264657461696c73223a7b22617474656d7074223a302c22657865637574696f6e5f646967657374223a2262396665616138616462313039306562316532376562623061313638636563343739656132393635653234306232386334316231383731353838346236653030222c227265766973696f6e223a322c2276616c69645f756e74696c223a22323032362d31322d30315431313a30323a31312e3934383031352b30303a3030227d2c22726561736f6e223a2264656369646564206265666f7265207468652075706772616465222c22726571756573745f6964223a22222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393630362d373433302d613939392d353562383133663866653961227d	\\x07aad091452a9a5aa97736759ad48824c95b76cf07229480212cef481439fa4a	\\xf8af5957ff90ffcaece42febad0edd06f9ad0fa08ada192ba4b5527d3964d36c
35	job:01a22c1e-961a-7643-ae7c-519b8306b0da	2	2026-11-30 11:02:11.955084+00	job.rejected	user:ben	decided before the upgrade		\\x7b22616374696f6e223a226a6f622e72656a6563746564222c226163746f72223a22757365723a62656e222c226166746572223a7b22706175736564223a66616c73652c227374617465223a2273746f70706564227d2c226174223a22323032362d31312d33305431313a30323a31312e3935353038342b30303a3030222c226265666f7265223a7b227374617465223a2268656c64227d2c2264657461696c73223a7b22617474656d7074223a302c227265766973696f6e223a327d2c22726561736f6e223a2264656369646564206265666f7265207468652075706772616465222c22726571756573745f6964223a22222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393631612d373634332d616537632d353139623833303662306461227d	\\xbc4924489dc624c62af8cbc5507efaf6183c69a9ca6ddf65d43e9b6707b4f90e	\\x67d916a02ea1b13834e311583376b745a9e5ffe2e2a2f1fc85970a11a5ae2a0f
36	job:01a22c1e-9606-7430-a999-55b813f8fe9a	3	2026-11-30 11:02:11.958496+00	job.paused	user:ben	decided before the upgrade		\\x7b22616374696f6e223a226a6f622e706175736564222c226163746f72223a22757365723a62656e222c226166746572223a7b22706175736564223a747275652c227374617465223a22717565756564227d2c226174223a22323032362d31312d33305431313a30323a31312e3935383439362b30303a3030222c226265666f7265223a7b227374617465223a22717565756564227d2c2264657461696c73223a7b22617474656d7074223a302c227265766973696f6e223a337d2c22726561736f6e223a2264656369646564206265666f7265207468652075706772616465222c22726571756573745f6964223a22222c22736571223a332c227375626a656374223a226a6f623a30316132326331652d393630362d373433302d613939392d353562383133663866653961227d	\\xf8af5957ff90ffcaece42febad0edd06f9ad0fa08ada192ba4b5527d3964d36c	\\x2c166fa6b35c7be8160016aee2fe3b27b59da7399f9e473364779716e9ede911
37	agent:agent_zero	2	2026-11-30 11:02:11.980133+00	admission.changed	submitter:ops	not needed	01a22c1e-9704-7245-aea6-ec4bb951a719	\\x7b22616374696f6e223a2261646d697373696f6e2e6368616e676564222c226163746f72223a227375626d69747465723a6f7073222c226166746572223a7b2261646d697373696f6e223a22636c6f736564222c2267656e65726174696f6e223a327d2c226174223a22323032362d31312d33305431313a30323a31312e3938303133332b30303a3030222c226265666f7265223a7b2261646d697373696f6e223a226f70656e222c2267656e65726174696f6e223a317d2c2264657461696c73223a7b22626172726965725f6964223a226265666f72652d7468652d75706772616465227d2c22726561736f6e223a226e6f74206e6565646564222c22726571756573745f6964223a2230316132326331652d393730342d373234352d616561362d656334626239353161373139222c22736571223a322c227375626a656374223a226167656e743a6167656e745f7a65726f227d	\\x0d6a2899c04739879217acab19c9f4d3e6977c010e809efc496f765d62e26bd0	\\x50f25705212039dd49c64594f931dd2c3fa7d5cc70536cb5259fc6a17cf81107
38	agent:agent_zero	3	2026-11-30 11:02:11.988247+00	inhibit.set	user:ben	until it is needed		\\x7b22616374696f6e223a22696e68696269742e736574222c226163746f72223a22757365723a62656e222c226166746572223a7b22656e64735f6174223a6e756c6c2c22696e68696269745f6964223a312c226f776e6572223a22757365723a62656e222c227374617274735f6174223a22323032362d31312d33305431313a30323a31312e3938383234372b30303a3030227d2c226174223a22323032362d31312d33305431313a30323a31312e3938383234372b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b7d2c22726561736f6e223a22756e74696c206974206973206e6565646564222c22726571756573745f6964223a22222c22736571223a332c227375626a656374223a226167656e743a6167656e745f7a65726f227d	\\x50f25705212039dd49c64594f931dd2c3fa7d5cc70536cb5259fc6a17cf81107	\\x0929e7d971fee6195ba219b4d59f065af81f7e154c6e57494c8a799ab8a640b0
39	job:01a22c1e-962f-7477-952a-792b9a8b7968	2	2026-11-30 11:02:12.013355+00	job.claimed	agent:hermes		01a22c1e-9726-7423-8fa4-9f693625661e	\\x7b22616374696f6e223a226a6f622e636c61696d6564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3031333335352b30303a3030222c226265666f7265223a7b227374617465223a22717565756564227d2c2264657461696c73223a7b22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c227265766973696f6e223a322c22776f726b65725f6964223a22776f726b65722d31227d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393732362d373432332d386661342d396636393336323536363165222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393632662d373437372d393532612d373932623961386237393638227d	\\xa3587178a98a94a044d7dd385299f5db37af55022a363aeeba23e16d9fbb820a	\\xd98ae1b412cde7330840ea9677931d268c4bb3246a30cb96e8d002b9efda91bf
40	job:01a22c1e-9644-7692-a954-f6c1b4acca1a	2	2026-11-30 11:02:12.042093+00	job.claimed	agent:hermes		01a22c1e-9746-7758-8540-8433e5f2e0c3	\\x7b22616374696f6e223a226a6f622e636c61696d6564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3034323039332b30303a3030222c226265666f7265223a7b227374617465223a22717565756564227d2c2264657461696c73223a7b22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c227265766973696f6e223a322c22776f726b65725f6964223a22776f726b65722d31227d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393734362d373735382d383534302d383433336535663265306333222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393634342d373639322d613935342d663663316234616363613161227d	\\xcf12db6c4bbbd62682bffba476047cca7a1a6ebb0c1b932b94852168df401514	\\x3449b4ae5ad1548a608d055c48933a421e90df3328bdc7ff7131488fe25eccd2
41	job:01a22c1e-9644-7692-a954-f6c1b4acca1a	3	2026-11-30 11:02:12.065209+00	job.reflected	agent:hermes		01a22c1e-975c-76f9-9e8b-d3cffbbda472	\\x7b22616374696f6e223a226a6f622e7265666c6563746564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3036353230392b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c22636f6e74656e745f736861323536223a2264326163616438376266313638666266303164623761306636666564666139326236353535363562646433303039376236646337356566393536366162383435222c227265766973696f6e223a322c2273657175656e63655f6e756d626572223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393735632d373666392d396538622d643363666662626461343732222c22736571223a332c227375626a656374223a226a6f623a30316132326331652d393634342d373639322d613935342d663663316234616363613161227d	\\x3449b4ae5ad1548a608d055c48933a421e90df3328bdc7ff7131488fe25eccd2	\\x080731a51e4cf873192927f713294e7939e7311d45f599b561d8aabac1eb8037
42	job:01a22c1e-9644-7692-a954-f6c1b4acca1a	4	2026-11-30 11:02:12.087775+00	job.delivered	agent:hermes		01a22c1e-9774-77a7-b4e1-c4147f4cbe2e	\\x7b22616374696f6e223a226a6f622e64656c697665726564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a227265766965775f7265717569726564227d2c226174223a22323032362d31312d33305431313a30323a31322e3038373737352b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226f7574636f6d655f736861323536223a2265363335393739333561623637643036316263356537383561363764663262643336636664346364313536646566613533316332353339653062363166366438222c227265766973696f6e223a337d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393737342d373761372d623465312d633431343766346362653265222c22736571223a342c227375626a656374223a226a6f623a30316132326331652d393634342d373639322d613935342d663663316234616363613161227d	\\x080731a51e4cf873192927f713294e7939e7311d45f599b561d8aabac1eb8037	\\xc8bf274c9b8799382477dbccb43de0ceb238d3e7ec51f57f4ce5ef4da9fdb39c
43	job:01a22c1e-9658-768f-b66d-baecc2ccba48	2	2026-11-30 11:02:12.106667+00	job.claimed	agent:hermes		01a22c1e-9787-7435-887e-cf762ae85975	\\x7b22616374696f6e223a226a6f622e636c61696d6564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3130363636372b30303a3030222c226265666f7265223a7b227374617465223a22717565756564227d2c2264657461696c73223a7b22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c227265766973696f6e223a322c22776f726b65725f6964223a22776f726b65722d31227d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393738372d373433352d383837652d636637363261653835393735222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393635382d373638662d623636642d626165636332636362613438227d	\\xe7a77de2ca1ea7236d80419116670ff359acee3598123b90efacc58f3be12f24	\\x5e84f1c3cd21010484d7a8a4360e0281e1a195c468fa683c20040605e9402e39
44	job:01a22c1e-9658-768f-b66d-baecc2ccba48	3	2026-11-30 11:02:12.124975+00	job.reflected	agent:hermes		01a22c1e-9799-745e-b0d3-c76cc623c62b	\\x7b22616374696f6e223a226a6f622e7265666c6563746564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3132343937352b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c22636f6e74656e745f736861323536223a2264326163616438376266313638666266303164623761306636666564666139326236353535363562646433303039376236646337356566393536366162383435222c227265766973696f6e223a322c2273657175656e63655f6e756d626572223a317d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393739392d373435652d623064332d633736636336323363363262222c22736571223a332c227375626a656374223a226a6f623a30316132326331652d393635382d373638662d623636642d626165636332636362613438227d	\\x5e84f1c3cd21010484d7a8a4360e0281e1a195c468fa683c20040605e9402e39	\\x6b423e6b1468c1ee83adce341dc4830fbf1631aa2a629b356ebeb8c59d916193
45	job:01a22c1e-9658-768f-b66d-baecc2ccba48	4	2026-11-30 11:02:12.143423+00	job.delivered	agent:hermes		01a22c1e-97ac-71bd-964f-0cf723aa353a	\\x7b22616374696f6e223a226a6f622e64656c697665726564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a227265766965775f7265717569726564227d2c226174223a22323032362d31312d33305431313a30323a31322e3134333432332b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226f7574636f6d655f736861323536223a2266643236663563366636383739393030336565636337373338313264393534383031343261346661323832313162663836643666363165363861366365326330222c227265766973696f6e223a337d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393761632d373162642d393634662d306366373233616133353361222c22736571223a342c227375626a656374223a226a6f623a30316132326331652d393635382d373638662d623636642d626165636332636362613438227d	\\x6b423e6b1468c1ee83adce341dc4830fbf1631aa2a629b356ebeb8c59d916193	\\x2d8d1801fde5b6026a81e5831f790b42ba18f2814be61e759da60110abc5d90e
46	job:01a22c1e-9658-768f-b66d-baecc2ccba48	5	2026-11-30 11:02:12.147324+00	job.sent_back	user:ben	decided before the upgrade		\\x7b22616374696f6e223a226a6f622e73656e745f6261636b222c226163746f72223a22757365723a62656e222c226166746572223a7b22706175736564223a66616c73652c227374617465223a226e656564735f7265776f726b227d2c226174223a22323032362d31312d33305431313a30323a31322e3134373332342b30303a3030222c226265666f7265223a7b227374617465223a227265766965775f7265717569726564227d2c2264657461696c73223a7b22617474656d7074223a312c227265766973696f6e223a347d2c22726561736f6e223a2264656369646564206265666f7265207468652075706772616465222c22726571756573745f6964223a22222c22736571223a352c227375626a656374223a226a6f623a30316132326331652d393635382d373638662d623636642d626165636332636362613438227d	\\x2d8d1801fde5b6026a81e5831f790b42ba18f2814be61e759da60110abc5d90e	\\x4e193be6875f2f02ca31c2cd51546d20c3e2a658307c708eb033f73a80b374a0
47	job:01a22c1e-9669-72d3-b055-cc914658c438	2	2026-11-30 11:02:12.166385+00	job.claimed	agent:hermes		01a22c1e-97c3-76cc-9ce1-96dbbb18378c	\\x7b22616374696f6e223a226a6f622e636c61696d6564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3136363338352b30303a3030222c226265666f7265223a7b227374617465223a22717565756564227d2c2264657461696c73223a7b22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c227265766973696f6e223a322c22776f726b65725f6964223a22776f726b65722d31227d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393763332d373663632d396365312d393664626262313833373863222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393636392d373264332d623035352d636339313436353863343338227d	\\x4beef693611cee46b5630ea781eb6d1f25ac032449811e534e2fd30ed18b2891	\\x576c02602c5cdaecc1cfc5a0b11ac240c3a283c2e184e5e0d5a6a7014cf38b39
48	job:01a22c1e-9669-72d3-b055-cc914658c438	3	2026-11-30 11:02:12.1852+00	job.attempt_failed	agent:hermes	It broke.	01a22c1e-97d5-74d9-a220-56df2a0bba58	\\x7b22616374696f6e223a226a6f622e617474656d70745f6661696c6564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a226661696c6564227d2c226174223a22323032362d31312d33305431313a30323a31322e3138353230302b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226572726f725f636f6465223a2242524f4b45222c22726574727961626c65223a747275652c227265766973696f6e223a337d2c22726561736f6e223a2249742062726f6b652e222c22726571756573745f6964223a2230316132326331652d393764352d373464392d613232302d353664663261306262613538222c22736571223a332c227375626a656374223a226a6f623a30316132326331652d393636392d373264332d623035352d636339313436353863343338227d	\\x576c02602c5cdaecc1cfc5a0b11ac240c3a283c2e184e5e0d5a6a7014cf38b39	\\x45f465195f7ae3fbb5ea8054088d0b131a5ac16e9b61676d04db9382fd1a25f9
49	job:01a22c1e-9679-74ed-920c-2a644e357e1c	2	2026-11-30 11:02:12.202318+00	job.claimed	agent:hermes		01a22c1e-97e7-7538-a35b-f1a6c8fedfad	\\x7b22616374696f6e223a226a6f622e636c61696d6564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3230323331382b30303a3030222c226265666f7265223a7b227374617465223a22717565756564227d2c2264657461696c73223a7b22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c227265766973696f6e223a322c22776f726b65725f6964223a22776f726b65722d31227d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d393765372d373533382d613335622d663161366338666564666164222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393637392d373465642d393230632d326136343465333537653163227d	\\x668ac99a1aa4aa33746269935e29cfb348b3cfd30456406b08a7949d33fb9261	\\x7326cd3676150bc561b14e4d03d4d04bc3a40178184c71ae6c0249574e96e981
50	job:01a22c1e-9679-74ed-920c-2a644e357e1c	3	2026-11-30 11:02:12.221503+00	job.escalated	agent:hermes	Ask a person.	01a22c1e-97fa-7081-bbbd-843734c78f76	\\x7b22616374696f6e223a226a6f622e657363616c61746564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22657363616c61746564227d2c226174223a22323032362d31312d33305431313a30323a31322e3232313530332b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226e6f746966795f746f223a22222c227265766973696f6e223a337d2c22726561736f6e223a2241736b206120706572736f6e2e222c22726571756573745f6964223a2230316132326331652d393766612d373038312d626262642d383433373334633738663736222c22736571223a332c227375626a656374223a226a6f623a30316132326331652d393637392d373465642d393230632d326136343465333537653163227d	\\x7326cd3676150bc561b14e4d03d4d04bc3a40178184c71ae6c0249574e96e981	\\xd17e5c5957a8c71e06e428eacfd487119d8244da28bd43051e9542d35ca7d4a9
51	agent:hermes	5	2026-11-30 11:02:12.339837+00	session.activated	agent:hermes			\\x7b22616374696f6e223a2273657373696f6e2e616374697661746564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a6e756c6c2c226174223a22323032362d31312d33305431313a30323a31322e3333393833372b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22626f6f745f6964223a2235653264393530392d373530642d343634622d386533662d393331376439353931336161222c2263656c6c5f6964223a2263656c6c2d31222c22646973706174636865725f65706f6368223a2239616536636230652d656265382d343966342d383837352d353036626263613865326432222c2273657373696f6e5f67656e65726174696f6e223a312c2273657373696f6e5f6964223a2230316132326331652d393837382d373336302d626263352d356166386264333735303135227d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a352c227375626a656374223a226167656e743a6865726d6573227d	\\x876274b8ca02d83a84d88fbaa41b44574471d5de87d555d4ae9c1152d9cb06f3	\\xfbc60023430e1b26c79ef22acc2f7dcb6c5d4cd1609ae215361a2df0d9340be2
52	job:01a22c1e-968d-756f-82bb-72087b88cbaa	2	2026-11-30 11:02:12.354707+00	job.claimed	agent:hermes			\\x7b22616374696f6e223a226a6f622e636c61696d6564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3335343730372b30303a3030222c226265666f7265223a7b227374617465223a22717565756564227d2c2264657461696c73223a7b22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c227265766973696f6e223a322c22776f726b65725f6964223a2230316132326331652d393837382d373336302d626263352d356166386264333735303135227d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393638642d373536662d383262622d373230383762383863626161227d	\\x69b7b54f8b64d5e8873a456c1babf385e6c4d823f5fa67b224783a59d2fc704c	\\xe36a0824935529ef38efe354d2695dbdb33aad62c1850599ccddfee768cc1043
53	job:01a22c1e-968d-756f-82bb-72087b88cbaa	3	2026-11-30 11:02:12.361528+00	route.issued	agent:hermes			\\x7b22616374696f6e223a22726f7574652e697373756564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3336313532382b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226465636973696f6e223a22697373756564222c226465636973696f6e5f6964223a2230316132326331652d393839322d373534392d393361392d353661643737323564363533222c226d6f64656c223a227374616e642d696e222c22706f6c6963795f6964223a312c22706f736974696f6e223a312c2270726963655f76657273696f6e223a226f7665727269646520323032362d31312d33305431313a30323a31312e3330323539375a222c2270726f7669646572223a226c6f63616c222c22726561736f6e223a6e756c6c2c227265736572766174696f6e223a7b22616d6f756e74223a22302e303033222c2263757272656e6379223a22555344222c227265736572766174696f6e5f6964223a2230316132326331652d393839322d373534392d393361392d353661653562343765353431222c227374617465223a2268656c64227d2c227265766973696f6e223a322c22726f7574655f726571756573745f6964223a2278725f303562663334393434373734646264363737373539623731383664383065383038333031346234616464333663346135393330393738373961336566323062633a6d6f64656c227d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a332c227375626a656374223a226a6f623a30316132326331652d393638642d373536662d383262622d373230383762383863626161227d	\\xe36a0824935529ef38efe354d2695dbdb33aad62c1850599ccddfee768cc1043	\\x6f632a8d5be7d41d9f6a231904e34ca1bf69fc0e8f52ea574858f9da2bf43fc6
54	job:01a22c1e-968d-756f-82bb-72087b88cbaa	4	2026-11-30 11:02:12.381341+00	permit.issued	agent:hermes			\\x7b22616374696f6e223a227065726d69742e697373756564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3338313334312b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226d6f6465223a226d6f636b222c227065726d69745f6964223a2230316132326331652d393861302d373433362d383561302d386166346561363238313433222c227265766973696f6e223a327d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a342c227375626a656374223a226a6f623a30316132326331652d393638642d373536662d383262622d373230383762383863626161227d	\\x6f632a8d5be7d41d9f6a231904e34ca1bf69fc0e8f52ea574858f9da2bf43fc6	\\xeff256c3db4c4a1e3962c0567f3389450120a3de32c0410ca762afe630600d20
55	job:01a22c1e-969f-7395-995a-5ca0fc047bb0	2	2026-11-30 11:02:12.391257+00	job.claimed	agent:hermes			\\x7b22616374696f6e223a226a6f622e636c61696d6564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3339313235372b30303a3030222c226265666f7265223a7b227374617465223a22717565756564227d2c2264657461696c73223a7b22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c227265766973696f6e223a322c22776f726b65725f6964223a2230316132326331652d393837382d373336302d626263352d356166386264333735303135227d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393639662d373339352d393935612d356361306663303437626230227d	\\x926082352dd9877c2f647f659ff57aa44c040f1d3b0f3d83366de6d0d5af143f	\\x4537dea0c7091e4a0e4f583c54ff8c26f3a6c9fdc83c38c36c84cb3c177edd57
68	job:01a22c1e-96b0-7660-882f-b9da19caf840	4	2026-11-30 11:02:12.500889+00	permit.issued	agent:hermes			\\x7b22616374696f6e223a227065726d69742e697373756564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3530303838392b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226d6f6465223a226d6f636b222c227065726d69745f6964223a2230316132326331652d393931372d373663382d613232632d303161353832363131616163222c227265766973696f6e223a327d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a342c227375626a656374223a226a6f623a30316132326331652d393662302d373636302d383832662d623964613139636166383430227d	\\x2a083b062812e39a10a3a193d41db2f9160be98eeac6ebd5557d54e065fd99b6	\\xee0ec4f1a49cc266d800dfecab26f760d3b1c9f83c5d153316e7026c90883697
56	job:01a22c1e-969f-7395-995a-5ca0fc047bb0	3	2026-11-30 11:02:12.397408+00	route.issued	agent:hermes			\\x7b22616374696f6e223a22726f7574652e697373756564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3339373430382b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226465636973696f6e223a22697373756564222c226465636973696f6e5f6964223a2230316132326331652d393862322d373037622d623332362d306330643031643038663465222c226d6f64656c223a227374616e642d696e222c22706f6c6963795f6964223a312c22706f736974696f6e223a312c2270726963655f76657273696f6e223a226f7665727269646520323032362d31312d33305431313a30323a31312e3330323539375a222c2270726f7669646572223a226c6f63616c222c22726561736f6e223a6e756c6c2c227265736572766174696f6e223a7b22616d6f756e74223a22302e303033222c2263757272656e6379223a22555344222c227265736572766174696f6e5f6964223a2230316132326331652d393862322d373037622d623332362d306330653865396361323437222c227374617465223a2268656c64227d2c227265766973696f6e223a322c22726f7574655f726571756573745f6964223a2278725f616336393132303738663837663433386639313037343537626563336433343433303737633831636530306238336439666130323637303334623934336262383a6d6f64656c227d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a332c227375626a656374223a226a6f623a30316132326331652d393639662d373339352d393935612d356361306663303437626230227d	\\x4537dea0c7091e4a0e4f583c54ff8c26f3a6c9fdc83c38c36c84cb3c177edd57	\\x22f9a93e0d2011e0c9789e6c4ce9425faab31a37b83a4b2ef7e4a28855a2070c
57	job:01a22c1e-969f-7395-995a-5ca0fc047bb0	4	2026-11-30 11:02:12.410175+00	permit.issued	agent:hermes			\\x7b22616374696f6e223a227065726d69742e697373756564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3431303137352b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226d6f6465223a226d6f636b222c227065726d69745f6964223a2230316132326331652d393862632d373039342d383566312d616336656264633232613232222c227265766973696f6e223a327d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a342c227375626a656374223a226a6f623a30316132326331652d393639662d373339352d393935612d356361306663303437626230227d	\\x22f9a93e0d2011e0c9789e6c4ce9425faab31a37b83a4b2ef7e4a28855a2070c	\\x148e8cc5fee3fa20cdf6f628fef0e588b40fb8d66673a644dab117b6658295f2
58	job:01a22c1e-969f-7395-995a-5ca0fc047bb0	5	2026-11-30 11:02:12.417716+00	execution.started	agent:hermes			\\x7b22616374696f6e223a22657865637574696f6e2e73746172746564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3431373731362b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c2265787465726e616c5f726571756573745f6964223a2278725f61633639313230373866383766343338663931303734353762656333643334343330373763383163653030623833643966613032363730333462393433626238222c226d6f6465223a226d6f636b222c227065726d69745f6964223a2230316132326331652d393862632d373039342d383566312d616336656264633232613232222c227265766973696f6e223a337d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a352c227375626a656374223a226a6f623a30316132326331652d393639662d373339352d393935612d356361306663303437626230227d	\\x148e8cc5fee3fa20cdf6f628fef0e588b40fb8d66673a644dab117b6658295f2	\\x09e859c49f015947573eeaddbb262571b4481de3a4ffea6b3ba7755e15af0ae0
59	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	2	2026-11-30 11:02:12.430219+00	job.claimed	agent:hermes			\\x7b22616374696f6e223a226a6f622e636c61696d6564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3433303231392b30303a3030222c226265666f7265223a7b227374617465223a22717565756564227d2c2264657461696c73223a7b22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c227265766973696f6e223a322c22776f726b65725f6964223a2230316132326331652d393837382d373336302d626263352d356166386264333735303135227d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393663302d373036662d623235362d653235646534633963666639227d	\\x9cccd11f8d1d17550e915b536853bed1465b618d3fb973f65751713c7d92453f	\\x7f21761932f1684e503e82281a56e0f70514a41db8d0cd726f41ebfae46e826e
60	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	3	2026-11-30 11:02:12.435318+00	route.issued	agent:hermes			\\x7b22616374696f6e223a22726f7574652e697373756564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3433353331382b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226465636973696f6e223a22697373756564222c226465636973696f6e5f6964223a2230316132326331652d393864382d373432642d393233332d343336303937383762316436222c226d6f64656c223a227374616e642d696e222c22706f6c6963795f6964223a312c22706f736974696f6e223a312c2270726963655f76657273696f6e223a226f7665727269646520323032362d31312d33305431313a30323a31312e3330323539375a222c2270726f7669646572223a226c6f63616c222c22726561736f6e223a6e756c6c2c227265736572766174696f6e223a7b22616d6f756e74223a22302e303033222c2263757272656e6379223a22555344222c227265736572766174696f6e5f6964223a2230316132326331652d393864382d373432642d393233332d343336313432633466376663222c227374617465223a2268656c64227d2c227265766973696f6e223a322c22726f7574655f726571756573745f6964223a2278725f616163303334386137373464336133343037613135333535373330613163316631623333343866633763666333643365376135616463636265313834363237363a6d6f64656c227d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a332c227375626a656374223a226a6f623a30316132326331652d393663302d373036662d623235362d653235646534633963666639227d	\\x7f21761932f1684e503e82281a56e0f70514a41db8d0cd726f41ebfae46e826e	\\x699e0a7a08b0c2b3687feb1dbac2c766f8dc93eac59bcc5904418422784126dc
61	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	4	2026-11-30 11:02:12.447309+00	permit.issued	agent:hermes			\\x7b22616374696f6e223a227065726d69742e697373756564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3434373330392b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226d6f6465223a226d6f636b222c227065726d69745f6964223a2230316132326331652d393865312d373433352d616530362d306230366639643565303665222c227265766973696f6e223a327d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a342c227375626a656374223a226a6f623a30316132326331652d393663302d373036662d623235362d653235646534633963666639227d	\\x699e0a7a08b0c2b3687feb1dbac2c766f8dc93eac59bcc5904418422784126dc	\\xa95c67b114c36dc10cc6fae472804f28261d3e2ea2d89d7033a83cd1ef74d579
62	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	5	2026-11-30 11:02:12.454855+00	execution.started	agent:hermes			\\x7b22616374696f6e223a22657865637574696f6e2e73746172746564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3435343835352b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c2265787465726e616c5f726571756573745f6964223a2278725f61616330333438613737346433613334303761313533353537333061316331663162333334386663376366633364336537613561646363626531383436323736222c226d6f6465223a226d6f636b222c227065726d69745f6964223a2230316132326331652d393865312d373433352d616530362d306230366639643565303665222c227265766973696f6e223a337d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a352c227375626a656374223a226a6f623a30316132326331652d393663302d373036662d623235362d653235646534633963666639227d	\\xa95c67b114c36dc10cc6fae472804f28261d3e2ea2d89d7033a83cd1ef74d579	\\xbddbac4d2c46209285a15c96cca53a875f8bc74a6f4f915cd691effe3e1097bb
63	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	6	2026-11-30 11:02:12.462936+00	execution.succeeded	agent:hermes			\\x7b22616374696f6e223a22657865637574696f6e2e737563636565646564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3436323933362b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c2265787465726e616c5f726571756573745f6964223a2278725f61616330333438613737346433613334303761313533353537333061316331663162333334386663376366633364336537613561646363626531383436323736222c22726573756c745f736861323536223a2263646364636463646364636463646364636463646364636463646364636463646364636463646364636463646364636463646364636463646364636463646364222c227265766973696f6e223a347d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a362c227375626a656374223a226a6f623a30316132326331652d393663302d373036662d623235362d653235646534633963666639227d	\\xbddbac4d2c46209285a15c96cca53a875f8bc74a6f4f915cd691effe3e1097bb	\\x49d251390cb49580c5617f4b8e3aaa93ccc48d8c4789e2560e0d55b7e3ce72d0
64	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	7	2026-11-30 11:02:12.462936+00	reservation.settled	agent:hermes			\\x7b22616374696f6e223a227265736572766174696f6e2e736574746c6564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3436323933362b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b2261637475616c223a22302e30303037222c22617474656d7074223a312c22636f73745f6261736973223a227573616765222c226f76657272756e223a66616c73652c227265736572766174696f6e5f6964223a2230316132326331652d393864382d373432642d393233332d343336313432633466376663222c227265766973696f6e223a342c227374617465223a22736574746c6564222c2275736167655f6d697373696e67223a66616c73657d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a372c227375626a656374223a226a6f623a30316132326331652d393663302d373036662d623235362d653235646534633963666639227d	\\x49d251390cb49580c5617f4b8e3aaa93ccc48d8c4789e2560e0d55b7e3ce72d0	\\xab38293b46cdd44842d28c042dbfa9807c65f90bc77514fad9326aa847745cd6
65	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	8	2026-11-30 11:02:12.479862+00	job.completed	agent:hermes			\\x7b22616374696f6e223a226a6f622e636f6d706c65746564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22636f6d706c65746564227d2c226174223a22323032362d31312d33305431313a30323a31322e3437393836322b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226f7574636f6d655f736861323536223a2266613237363538353361633338343339393532646533383533626632323165616332623163393166623262336134303838333535396465336462343230376337222c227265766973696f6e223a357d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a382c227375626a656374223a226a6f623a30316132326331652d393663302d373036662d623235362d653235646534633963666639227d	\\xab38293b46cdd44842d28c042dbfa9807c65f90bc77514fad9326aa847745cd6	\\x7313fdbfe7c8e4a6747ecc9941514697b5800058203c9db229307fdc40975204
66	job:01a22c1e-96b0-7660-882f-b9da19caf840	2	2026-11-30 11:02:12.484545+00	job.claimed	agent:hermes			\\x7b22616374696f6e223a226a6f622e636c61696d6564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3438343534352b30303a3030222c226265666f7265223a7b227374617465223a22717565756564227d2c2264657461696c73223a7b22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c227265766973696f6e223a322c22776f726b65725f6964223a2230316132326331652d393837382d373336302d626263352d356166386264333735303135227d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393662302d373636302d383832662d623964613139636166383430227d	\\x701f1a9ba440445cacead470e88b4146905bf3bd4d86d8994fb4db1a1977a6df	\\x9696c1a085ce19d80498d4ca2193f772b8422fee1edcf312d7cd524cc47dea9d
67	job:01a22c1e-96b0-7660-882f-b9da19caf840	3	2026-11-30 11:02:12.489447+00	route.issued	agent:hermes			\\x7b22616374696f6e223a22726f7574652e697373756564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3438393434372b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226465636973696f6e223a22697373756564222c226465636973696f6e5f6964223a2230316132326331652d393930652d373034662d623731342d613164643337653463336539222c226d6f64656c223a227374616e642d696e222c22706f6c6963795f6964223a312c22706f736974696f6e223a312c2270726963655f76657273696f6e223a226f7665727269646520323032362d31312d33305431313a30323a31312e3330323539375a222c2270726f7669646572223a226c6f63616c222c22726561736f6e223a6e756c6c2c227265736572766174696f6e223a7b22616d6f756e74223a22302e303033222c2263757272656e6379223a22555344222c227265736572766174696f6e5f6964223a2230316132326331652d393930652d373034662d623731342d613164653537383130366135222c227374617465223a2268656c64227d2c227265766973696f6e223a322c22726f7574655f726571756573745f6964223a2278725f353832333032656131646538633064303337616537376561366561333562653035373966383537306434356236383439336230303130376634306161303134363a6d6f64656c227d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a332c227375626a656374223a226a6f623a30316132326331652d393662302d373636302d383832662d623964613139636166383430227d	\\x9696c1a085ce19d80498d4ca2193f772b8422fee1edcf312d7cd524cc47dea9d	\\x2a083b062812e39a10a3a193d41db2f9160be98eeac6ebd5557d54e065fd99b6
69	job:01a22c1e-96b0-7660-882f-b9da19caf840	5	2026-11-30 11:02:12.508587+00	execution.started	agent:hermes			\\x7b22616374696f6e223a22657865637574696f6e2e73746172746564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3530383538372b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c2265787465726e616c5f726571756573745f6964223a2278725f35383233303265613164653863306430333761653737656136656133356265303537396638353730643435623638343933623030313037663430616130313436222c226d6f6465223a226d6f636b222c227065726d69745f6964223a2230316132326331652d393931372d373663382d613232632d303161353832363131616163222c227265766973696f6e223a337d2c22726561736f6e223a22222c22726571756573745f6964223a22222c22736571223a352c227375626a656374223a226a6f623a30316132326331652d393662302d373636302d383832662d623964613139636166383430227d	\\xee0ec4f1a49cc266d800dfecab26f760d3b1c9f83c5d153316e7026c90883697	\\x04bb87d13567870d601a3cfdf5fe14fb23b68582b195eb36b822e0b20234710c
70	job:01a22c1e-96b0-7660-882f-b9da19caf840	6	2026-11-30 11:02:12.521301+00	job.attempt_failed	agent:hermes	The worker was lost.		\\x7b22616374696f6e223a226a6f622e617474656d70745f6661696c6564222c226163746f72223a226167656e743a6865726d6573222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22696e5f646f756274227d2c226174223a22323032362d31312d33305431313a30323a31322e3532313330312b30303a3030222c226265666f7265223a7b227374617465223a22616374697665227d2c2264657461696c73223a7b22617474656d7074223a312c226572726f725f636f6465223a224f5554434f4d455f554e4b4e4f574e222c22726574727961626c65223a747275652c227265766973696f6e223a347d2c22726561736f6e223a2254686520776f726b657220776173206c6f73742e222c22726571756573745f6964223a22222c22736571223a362c227375626a656374223a226a6f623a30316132326331652d393662302d373636302d383832662d623964613139636166383430227d	\\x04bb87d13567870d601a3cfdf5fe14fb23b68582b195eb36b822e0b20234710c	\\x0a4de765ba310e5ad22cb8d7920a6dae82821d68a9a1219ea38de68819aace44
71	agent:openclaw	3	2026-11-30 11:02:12.791742+00	session.activated	agent:openclaw		01a22c1e-9a26-7667-8191-a7238ff7b07f	\\x7b22616374696f6e223a2273657373696f6e2e616374697661746564222c226163746f72223a226167656e743a6f70656e636c6177222c226166746572223a6e756c6c2c226174223a22323032362d31312d33305431313a30323a31322e3739313734322b30303a3030222c226265666f7265223a6e756c6c2c2264657461696c73223a7b22626f6f745f6964223a2230316132326331652d396132312d373634662d393632392d653430333033323962643133222c2263656c6c5f6964223a2263656c6c2d37222c22646973706174636865725f65706f6368223a2239616536636230652d656265382d343966342d383837352d353036626263613865326432222c2273657373696f6e5f67656e65726174696f6e223a312c2273657373696f6e5f6964223a2230316132326331652d396133622d373732332d393838652d633230616533643065643861227d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d396132362d373636372d383139312d613732333866663762303766222c22736571223a332c227375626a656374223a226167656e743a6f70656e636c6177227d	\\x407bb7a7fffbd319d57a36b95d5b7b8cbf154daa1310b6a4399098cb52943803	\\x4162864cea22650e7fecda10d8ff016f20402ba569d9d7e9a38c6e92259dc709
72	job:01a22c1e-96d2-773d-8670-5c2a4d089ca7	2	2026-11-30 11:02:12.835289+00	job.claimed	agent:openclaw		01a22c1e-9a4d-74ac-9b72-9f59799fdc4f	\\x7b22616374696f6e223a226a6f622e636c61696d6564222c226163746f72223a226167656e743a6f70656e636c6177222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3833353238392b30303a3030222c226265666f7265223a7b227374617465223a22717565756564227d2c2264657461696c73223a7b22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c227265766973696f6e223a322c22776f726b65725f6964223a226f70656e636c61772d37227d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d396134642d373461632d396237322d396635393739396664633466222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393664322d373733642d383637302d356332613464303839636137227d	\\x14e9045240528263fd0dcc4dd703bb0f67c1ec3b5c31448ce1dbc080dfc4a0a6	\\x17a5e11b3f0afa60c31ad6e13bcda7d432db93c4c57c5784f02e900fb4800b2d
73	job:01a22c1e-96e4-77b2-886d-97ef25e32ebc	2	2026-11-30 11:02:12.835289+00	job.claimed	agent:openclaw		01a22c1e-9a4d-74ac-9b72-9f59799fdc4f	\\x7b22616374696f6e223a226a6f622e636c61696d6564222c226163746f72223a226167656e743a6f70656e636c6177222c226166746572223a7b22706175736564223a66616c73652c227374617465223a22616374697665227d2c226174223a22323032362d31312d33305431313a30323a31322e3833353238392b30303a3030222c226265666f7265223a7b227374617465223a22717565756564227d2c2264657461696c73223a7b22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c227265766973696f6e223a322c22776f726b65725f6964223a226f70656e636c61772d37227d2c22726561736f6e223a22222c22726571756573745f6964223a2230316132326331652d396134642d373461632d396237322d396635393739396664633466222c22736571223a322c227375626a656374223a226a6f623a30316132326331652d393665342d373762322d383836642d393765663235653332656263227d	\\xc7660b0c6ddcbdedfdfd6d8051cffbfb48bab17c204ff3d31843b6b6c1fc477f	\\xc2d2c51bfa1900937fcb27ed027323dfb78e22ce803636d32cc0e4c4bb6908ac
\.
COPY governance_budget (id, audit_seq, audit_head, scope, key, "window", cap, soft_cap, enabled) FROM stdin;
1	1	\\xaa9716fc8b5a58c9b19e2b9cdee6fef0c7082996a636d6a145415dff7b80ba52	global		none	50.000000000000	\N	t
2	1	\\x8546a8c53231ebdbdb51590ac83b4e21a617577b7632c2a16030d33c934575b4	agent	hermes	day	20.000000000000	\N	t
\.
COPY governance_budgetwindow (id, counted_for, kind, starts_at, ends_at, held, spent, warned_at, budget_id) FROM stdin;
1		none	1970-01-01 00:00:00+00	\N	0.009000000000	0.000700000000	\N	1
2		day	2026-11-30 00:00:00+00	2026-12-01 00:00:00+00	0.009000000000	0.000700000000	\N	2
\.
COPY governance_bulkitem (id, "position", key, outcome, detail, at, run_id, revision) FROM stdin;
1	1	rejected	done		2026-11-30 11:02:12.526976+00	1	2
\.
COPY governance_bulkrun (id, run_id, act, model, reason, fields, total, created_at, finished_at, stopped_by, user_id) FROM stdin;
1	01a22c1e-992d-7508-a9c7-ad280322f58a	stop	jobs.job	too many	{}	1	2026-11-30 11:02:12.525201+00	2026-11-30 11:02:12.52539+00		1
\.
COPY governance_eventminute (id, minute, action, count) FROM stdin;
\.
COPY governance_eventminutecursor (id, last_event_id, counted_at) FROM stdin;
\.
COPY governance_fact (id, fact_id, principal, stream, sequence, type, data, content_sha256, receipt_id, recorded_at, relayed, published_at, delivered_to) FROM stdin;
18	01a22c1e-96f6-7697-b244-603585f081dd	system	job:01a22c1e-9606-7430-a999-55b813f8fe9a	3	dev.fencepost.job.paused	{"owner": "hermes", "state": "queued", "job_id": "01a22c1e-9606-7430-a999-55b813f8fe9a", "attempt": 0, "task_id": "approved", "revision": 3, "fencing_token": 0}	cca6d6bb55135a46d2c8b9c3ce19b199b30b8536ff347ee4db443b46bec7f3d6	01a22c1e-96f6-7697-b244-603585f081dd	2026-11-30 11:02:11.958496+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
26	01a22c1e-97b3-700d-a36e-019041086113	system	job:01a22c1e-9658-768f-b66d-baecc2ccba48	5	dev.fencepost.job.sent_back	{"owner": "hermes", "state": "needs_rework", "job_id": "01a22c1e-9658-768f-b66d-baecc2ccba48", "attempt": 1, "task_id": "rework", "revision": 4, "fencing_token": 1}	8aef467f45196fa234c29a869ecfd70c90f8f4603d00e2f09b364679645ebffa	01a22c1e-97b3-700d-a36e-019041086113	2026-11-30 11:02:12.147324+00	t	\N	[]
27	01a22c1e-97c7-7744-9856-aed9a22fcbfa	system	job:01a22c1e-9669-72d3-b055-cc914658c438	2	dev.fencepost.job.claimed	{"owner": "hermes", "state": "active", "job_id": "01a22c1e-9669-72d3-b055-cc914658c438", "attempt": 1, "task_id": "failed", "revision": 2, "worker_id": "worker-1", "fencing_token": 1}	64a0779002aaeaf6cd807b7bd3d261325710c95e1883d630e4106c527aa6cfc5	01a22c1e-97c7-7744-9856-aed9a22fcbfa	2026-11-30 11:02:12.166385+00	t	\N	[]
28	01a22c1e-97d9-73f6-863a-638678fc6a6d	system	job:01a22c1e-9669-72d3-b055-cc914658c438	3	dev.fencepost.job.attempt_failed	{"owner": "hermes", "state": "failed", "job_id": "01a22c1e-9669-72d3-b055-cc914658c438", "attempt": 1, "task_id": "failed", "revision": 3, "retryable": true, "error_code": "BROKE", "fencing_token": 1}	9f24befdb027488d3e6556b0f421e3cd252ca69a065a3e2917b4d19bdc7bcb49	01a22c1e-97d9-73f6-863a-638678fc6a6d	2026-11-30 11:02:12.1852+00	t	\N	[]
29	01a22c1e-97ea-7637-b130-9a3a68977310	system	job:01a22c1e-9679-74ed-920c-2a644e357e1c	2	dev.fencepost.job.claimed	{"owner": "hermes", "state": "active", "job_id": "01a22c1e-9679-74ed-920c-2a644e357e1c", "attempt": 1, "task_id": "escalated", "revision": 2, "worker_id": "worker-1", "fencing_token": 1}	403f42faaa49603bc1110219769be27072088d0a44450bfa3b767fe40d1b8cde	01a22c1e-97ea-7637-b130-9a3a68977310	2026-11-30 11:02:12.202318+00	t	\N	[]
30	01a22c1e-97fe-736f-a8d0-b9122860da69	system	job:01a22c1e-9679-74ed-920c-2a644e357e1c	3	dev.fencepost.job.escalated	{"owner": "hermes", "state": "escalated", "job_id": "01a22c1e-9679-74ed-920c-2a644e357e1c", "attempt": 1, "task_id": "escalated", "revision": 3, "notify_to": "", "fencing_token": 1}	21da6ed2fb3d66d41a38c3d04fd0cc6257dad331b1fbd0035ab6a3ce78403886	01a22c1e-97fe-736f-a8d0-b9122860da69	2026-11-30 11:02:12.221503+00	t	\N	[]
31	01a22c1e-9883-74bc-957c-23f71f418e2d	system	job:01a22c1e-968d-756f-82bb-72087b88cbaa	2	dev.fencepost.job.claimed	{"owner": "hermes", "state": "active", "job_id": "01a22c1e-968d-756f-82bb-72087b88cbaa", "attempt": 1, "task_id": "permitted", "revision": 2, "worker_id": "01a22c1e-9878-7360-bbc5-5af8bd375015", "fencing_token": 1}	598b9c7ab4b58ff82f8194abaa3fa7163f0e13fedd5779c1cbbd521f6f33bca9	01a22c1e-9883-74bc-957c-23f71f418e2d	2026-11-30 11:02:12.354707+00	t	\N	[]
32	01a22c1e-9896-7410-a1ff-33f825f9b7ab	system	job:01a22c1e-968d-756f-82bb-72087b88cbaa	3	dev.fencepost.route.issued	{"model": "stand-in", "owner": "hermes", "state": "active", "job_id": "01a22c1e-968d-756f-82bb-72087b88cbaa", "reason": null, "attempt": 1, "task_id": "permitted", "decision": "issued", "position": 1, "provider": "local", "revision": 2, "policy_id": 1, "decision_id": "01a22c1e-9892-7549-93a9-56ad7725d653", "reservation": {"state": "held", "amount": "0.003", "currency": "USD", "reservation_id": "01a22c1e-9892-7549-93a9-56ae5b47e541"}, "fencing_token": 1, "price_version": "override 2026-11-30T11:02:11.302597Z", "route_request_id": "xr_05bf34944774dbd677759b7186d80e8083014b4add36c4a593097879a3ef20bc:model"}	a17dc81bcdedf2680b646919181c0b0f831bc0fa888b8cade589f05ae67bbb86	01a22c1e-9896-7410-a1ff-33f825f9b7ab	2026-11-30 11:02:12.361528+00	t	\N	[]
33	01a22c1e-98a0-7436-85a0-8af54f97d149	system	job:01a22c1e-968d-756f-82bb-72087b88cbaa	4	dev.fencepost.permit.issued	{"mode": "mock", "owner": "hermes", "state": "active", "job_id": "01a22c1e-968d-756f-82bb-72087b88cbaa", "attempt": 1, "task_id": "permitted", "revision": 2, "permit_id": "01a22c1e-98a0-7436-85a0-8af4ea628143", "fencing_token": 1}	8bc9c8597370a4ac96f994f5b3106b91c6f5445c0c549c3ff1a6a671d6f6323f	01a22c1e-98a0-7436-85a0-8af54f97d149	2026-11-30 11:02:12.381341+00	t	\N	[]
34	01a22c1e-98a7-73d9-a598-53ac7b983d6f	system	job:01a22c1e-969f-7395-995a-5ca0fc047bb0	2	dev.fencepost.job.claimed	{"owner": "hermes", "state": "active", "job_id": "01a22c1e-969f-7395-995a-5ca0fc047bb0", "attempt": 1, "task_id": "unknown", "revision": 2, "worker_id": "01a22c1e-9878-7360-bbc5-5af8bd375015", "fencing_token": 1}	cb83d524d5cc72912396e41b69f77f70d505b3b868132d2e17f2199445df516a	01a22c1e-98a7-73d9-a598-53ac7b983d6f	2026-11-30 11:02:12.391257+00	t	\N	[]
35	01a22c1e-98b4-73f7-8f06-6d16c03c0abf	system	job:01a22c1e-969f-7395-995a-5ca0fc047bb0	3	dev.fencepost.route.issued	{"model": "stand-in", "owner": "hermes", "state": "active", "job_id": "01a22c1e-969f-7395-995a-5ca0fc047bb0", "reason": null, "attempt": 1, "task_id": "unknown", "decision": "issued", "position": 1, "provider": "local", "revision": 2, "policy_id": 1, "decision_id": "01a22c1e-98b2-707b-b326-0c0d01d08f4e", "reservation": {"state": "held", "amount": "0.003", "currency": "USD", "reservation_id": "01a22c1e-98b2-707b-b326-0c0e8e9ca247"}, "fencing_token": 1, "price_version": "override 2026-11-30T11:02:11.302597Z", "route_request_id": "xr_ac6912078f87f438f9107457bec3d3443077c81ce00b83d9fa0267034b943bb8:model"}	fa9de97d6d106d1104c02018b219645239a3724ef295cfcac6feb8d0cf50b2d1	01a22c1e-98b4-73f7-8f06-6d16c03c0abf	2026-11-30 11:02:12.397408+00	t	\N	[]
36	01a22c1e-98bc-7094-85f1-ac6fdbcd246a	system	job:01a22c1e-969f-7395-995a-5ca0fc047bb0	4	dev.fencepost.permit.issued	{"mode": "mock", "owner": "hermes", "state": "active", "job_id": "01a22c1e-969f-7395-995a-5ca0fc047bb0", "attempt": 1, "task_id": "unknown", "revision": 2, "permit_id": "01a22c1e-98bc-7094-85f1-ac6ebdc22a22", "fencing_token": 1}	5a10642162cadd1a28d27dc7fd17b718d823b78e6e7a360a8605e6dc3abac37e	01a22c1e-98bc-7094-85f1-ac6fdbcd246a	2026-11-30 11:02:12.410175+00	t	\N	[]
37	01a22c1e-98c6-775d-ba09-e861e88309ea	system	job:01a22c1e-969f-7395-995a-5ca0fc047bb0	5	dev.fencepost.execution.started	{"mode": "mock", "owner": "hermes", "state": "active", "job_id": "01a22c1e-969f-7395-995a-5ca0fc047bb0", "attempt": 1, "task_id": "unknown", "revision": 3, "permit_id": "01a22c1e-98bc-7094-85f1-ac6ebdc22a22", "fencing_token": 1, "external_request_id": "xr_ac6912078f87f438f9107457bec3d3443077c81ce00b83d9fa0267034b943bb8"}	446fe495be11bbb024a19a424e3eefa191108d6ca073e08e46d333701c92f666	01a22c1e-98c6-775d-ba09-e861e88309ea	2026-11-30 11:02:12.417716+00	t	\N	[]
38	01a22c1e-98ce-7311-92ea-fcba5d8450c2	system	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	2	dev.fencepost.job.claimed	{"owner": "hermes", "state": "active", "job_id": "01a22c1e-96c0-706f-b256-e25de4c9cff9", "attempt": 1, "task_id": "settled", "revision": 2, "worker_id": "01a22c1e-9878-7360-bbc5-5af8bd375015", "fencing_token": 1}	6a92e66d453be470a6122ef1be079727ef4a6fb7788d86dd64b221d077ec5630	01a22c1e-98ce-7311-92ea-fcba5d8450c2	2026-11-30 11:02:12.430219+00	t	\N	[]
39	01a22c1e-98d9-704e-8dc8-19a3d4244371	system	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	3	dev.fencepost.route.issued	{"model": "stand-in", "owner": "hermes", "state": "active", "job_id": "01a22c1e-96c0-706f-b256-e25de4c9cff9", "reason": null, "attempt": 1, "task_id": "settled", "decision": "issued", "position": 1, "provider": "local", "revision": 2, "policy_id": 1, "decision_id": "01a22c1e-98d8-742d-9233-43609787b1d6", "reservation": {"state": "held", "amount": "0.003", "currency": "USD", "reservation_id": "01a22c1e-98d8-742d-9233-436142c4f7fc"}, "fencing_token": 1, "price_version": "override 2026-11-30T11:02:11.302597Z", "route_request_id": "xr_aac0348a774d3a3407a15355730a1c1f1b3348fc7cfc3d3e7a5adccbe1846276:model"}	2ce6b7d37daa1e012892e7bb9e3b5f9e7b7d2f1e18f3ebdebc556493c62d6bad	01a22c1e-98d9-704e-8dc8-19a3d4244371	2026-11-30 11:02:12.435318+00	t	\N	[]
40	01a22c1e-98e1-7435-ae06-0b073469eb91	system	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	4	dev.fencepost.permit.issued	{"mode": "mock", "owner": "hermes", "state": "active", "job_id": "01a22c1e-96c0-706f-b256-e25de4c9cff9", "attempt": 1, "task_id": "settled", "revision": 2, "permit_id": "01a22c1e-98e1-7435-ae06-0b06f9d5e06e", "fencing_token": 1}	9c45fa5907c19331a7b9bfca9dc7ecb8ee1169228834f40a8f7c0c5b6348ccb0	01a22c1e-98e1-7435-ae06-0b073469eb91	2026-11-30 11:02:12.447309+00	t	\N	[]
41	01a22c1e-98eb-760d-acc2-a29a86c4be49	system	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	5	dev.fencepost.execution.started	{"mode": "mock", "owner": "hermes", "state": "active", "job_id": "01a22c1e-96c0-706f-b256-e25de4c9cff9", "attempt": 1, "task_id": "settled", "revision": 3, "permit_id": "01a22c1e-98e1-7435-ae06-0b06f9d5e06e", "fencing_token": 1, "external_request_id": "xr_aac0348a774d3a3407a15355730a1c1f1b3348fc7cfc3d3e7a5adccbe1846276"}	69b1df7222b75bdf61f6f5c74b3c28c72dff48f89dc730f71de352e974f6964c	01a22c1e-98eb-760d-acc2-a29a86c4be49	2026-11-30 11:02:12.454855+00	t	\N	[]
42	01a22c1e-98f3-7298-afe5-de03273b4769	system	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	6	dev.fencepost.execution.succeeded	{"owner": "hermes", "state": "active", "job_id": "01a22c1e-96c0-706f-b256-e25de4c9cff9", "attempt": 1, "task_id": "settled", "revision": 4, "fencing_token": 1, "result_sha256": "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd", "external_request_id": "xr_aac0348a774d3a3407a15355730a1c1f1b3348fc7cfc3d3e7a5adccbe1846276"}	af9a6305741d8fcdec91623ba79b43700770ab9b0d5efeab459736e224cce8d4	01a22c1e-98f3-7298-afe5-de03273b4769	2026-11-30 11:02:12.462936+00	t	\N	[]
43	01a22c1e-98f9-701f-9cf4-7a6791b68f4d	system	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	7	dev.fencepost.reservation.settled	{"owner": "hermes", "state": "settled", "actual": "0.0007", "job_id": "01a22c1e-96c0-706f-b256-e25de4c9cff9", "attempt": 1, "overrun": false, "task_id": "settled", "revision": 4, "cost_basis": "usage", "fencing_token": 1, "usage_missing": false, "reservation_id": "01a22c1e-98d8-742d-9233-436142c4f7fc"}	9a4b574eb5dfbc503f5798ad9b01df6ed8fb25479203f14c6dff254d6d4b5dd7	01a22c1e-98f9-701f-9cf4-7a6791b68f4d	2026-11-30 11:02:12.462936+00	t	\N	[]
44	01a22c1e-9900-74d5-b03b-a031211f61da	system	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	8	dev.fencepost.job.completed	{"owner": "hermes", "state": "completed", "job_id": "01a22c1e-96c0-706f-b256-e25de4c9cff9", "attempt": 1, "task_id": "settled", "revision": 5, "fencing_token": 1, "outcome_sha256": "fa2765853ac38439952de3853bf221eac2b1c91fb2b3a40883559de3db4207c7"}	fe369e0cca5e9cb558bd961fa2c3f699b791d0c4bd2f3e25ad46093db860641e	01a22c1e-9900-74d5-b03b-a031211f61da	2026-11-30 11:02:12.479862+00	t	\N	[]
45	01a22c1e-9905-7665-a9e9-da1e517f10f9	system	job:01a22c1e-96b0-7660-882f-b9da19caf840	2	dev.fencepost.job.claimed	{"owner": "hermes", "state": "active", "job_id": "01a22c1e-96b0-7660-882f-b9da19caf840", "attempt": 1, "task_id": "in-doubt", "revision": 2, "worker_id": "01a22c1e-9878-7360-bbc5-5af8bd375015", "fencing_token": 1}	7cdb8f0ed10c0760550ac95df15db16f595fd61d8b303235dfe92f2acf9b7a7c	01a22c1e-9905-7665-a9e9-da1e517f10f9	2026-11-30 11:02:12.484545+00	t	\N	[]
46	01a22c1e-990f-77f6-b5ac-72b2378ea939	system	job:01a22c1e-96b0-7660-882f-b9da19caf840	3	dev.fencepost.route.issued	{"model": "stand-in", "owner": "hermes", "state": "active", "job_id": "01a22c1e-96b0-7660-882f-b9da19caf840", "reason": null, "attempt": 1, "task_id": "in-doubt", "decision": "issued", "position": 1, "provider": "local", "revision": 2, "policy_id": 1, "decision_id": "01a22c1e-990e-704f-b714-a1dd37e4c3e9", "reservation": {"state": "held", "amount": "0.003", "currency": "USD", "reservation_id": "01a22c1e-990e-704f-b714-a1de578106a5"}, "fencing_token": 1, "price_version": "override 2026-11-30T11:02:11.302597Z", "route_request_id": "xr_582302ea1de8c0d037ae77ea6ea35be0579f8570d45b68493b00107f40aa0146:model"}	a0729ececc101a7eb6cd52c50ad0e9d989370cf0bb2d948d0283d41662d0de4a	01a22c1e-990f-77f6-b5ac-72b2378ea939	2026-11-30 11:02:12.489447+00	t	\N	[]
47	01a22c1e-9917-76c8-a22c-01a61e691689	system	job:01a22c1e-96b0-7660-882f-b9da19caf840	4	dev.fencepost.permit.issued	{"mode": "mock", "owner": "hermes", "state": "active", "job_id": "01a22c1e-96b0-7660-882f-b9da19caf840", "attempt": 1, "task_id": "in-doubt", "revision": 2, "permit_id": "01a22c1e-9917-76c8-a22c-01a582611aac", "fencing_token": 1}	3ba85fa5f9ce5153ca2059cc667c92c39ed431b72dcd9c5bed450ae6ca11c253	01a22c1e-9917-76c8-a22c-01a61e691689	2026-11-30 11:02:12.500889+00	t	\N	[]
48	01a22c1e-9920-7182-95f4-cc52368453eb	system	job:01a22c1e-96b0-7660-882f-b9da19caf840	5	dev.fencepost.execution.started	{"mode": "mock", "owner": "hermes", "state": "active", "job_id": "01a22c1e-96b0-7660-882f-b9da19caf840", "attempt": 1, "task_id": "in-doubt", "revision": 3, "permit_id": "01a22c1e-9917-76c8-a22c-01a582611aac", "fencing_token": 1, "external_request_id": "xr_582302ea1de8c0d037ae77ea6ea35be0579f8570d45b68493b00107f40aa0146"}	1b7e5406fb390620573aec2ad34eba3deed1dfc09c80a19cc69481e586031a4c	01a22c1e-9920-7182-95f4-cc52368453eb	2026-11-30 11:02:12.508587+00	t	\N	[]
49	01a22c1e-9929-746d-b639-9badaeb1516b	system	job:01a22c1e-96b0-7660-882f-b9da19caf840	6	dev.fencepost.job.attempt_failed	{"owner": "hermes", "state": "in_doubt", "job_id": "01a22c1e-96b0-7660-882f-b9da19caf840", "attempt": 1, "task_id": "in-doubt", "revision": 4, "retryable": true, "error_code": "OUTCOME_UNKNOWN", "fencing_token": 1}	e19c28c17bef253d401af3a71cd837280437bab2d48212d2b3f4a7207eb4d85a	01a22c1e-9929-746d-b639-9badaeb1516b	2026-11-30 11:02:12.521301+00	t	\N	[]
50	01a22c1e-9a64-702c-af93-b60b9929d9e7	system	job:01a22c1e-96d2-773d-8670-5c2a4d089ca7	2	dev.fencepost.job.claimed	{"owner": "openclaw", "state": "active", "job_id": "01a22c1e-96d2-773d-8670-5c2a4d089ca7", "attempt": 1, "task_id": "worker-done", "revision": 2, "worker_id": "openclaw-7", "fencing_token": 1}	52e9a96fa70d7911b521be0e4c82902cc4117ca28f26c02c78744bf33a49e08e	01a22c1e-9a64-702c-af93-b60b9929d9e7	2026-11-30 11:02:12.835289+00	t	\N	[]
51	01a22c1e-9a64-702c-af93-b60c4af7a574	system	job:01a22c1e-96e4-77b2-886d-97ef25e32ebc	2	dev.fencepost.job.claimed	{"owner": "openclaw", "state": "active", "job_id": "01a22c1e-96e4-77b2-886d-97ef25e32ebc", "attempt": 1, "task_id": "worker-began", "revision": 2, "worker_id": "openclaw-7", "fencing_token": 1}	1ab181d6db00302854a0440a67c91663d39e200981a3aca9da34f650a53e3548	01a22c1e-9a64-702c-af93-b60c4af7a574	2026-11-30 11:02:12.835289+00	t	\N	[]
1	01a22c1e-95db-725e-890e-95202afc0488	system	job:01a22c1e-95d5-7240-90f0-0ecfcab16482	1	dev.fencepost.job.queued	{"owner": "hermes", "state": "queued", "job_id": "01a22c1e-95d5-7240-90f0-0ecfcab16482", "attempt": 0, "task_id": "keyed", "revision": 1, "fencing_token": 0, "execution_digest": "0175613a96509b33b58d8ac96365f0245910fd686a6fd1371e7e8ac63bd8b7a3"}	b8f79707efb743e4939eeec244cb395717afe2761d6fec93903f0033d025928e	01a22c1e-95db-725e-890e-95202afc0488	2026-11-30 11:02:11.668844+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
2	01a22c1e-95f5-726f-9c83-4bcb140b1668	system	job:01a22c1e-95f4-72a1-90aa-59ab833148b8	1	dev.fencepost.job.held	{"owner": "hermes", "state": "held", "job_id": "01a22c1e-95f4-72a1-90aa-59ab833148b8", "attempt": 0, "task_id": "held", "revision": 1, "fencing_token": 0, "execution_digest": "4aacd9756c63a814cb1fe7d55ed12352bdb97321445c86028df7e7d08e92efa9"}	6cde6aa10a963892c75d22c98e2aee0265bc11fd963ff32177a70a7f68fdf02a	01a22c1e-95f5-726f-9c83-4bcb140b1668	2026-11-30 11:02:11.7006+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
3	01a22c1e-9607-7239-a43a-48d7f0ff4979	system	job:01a22c1e-9606-7430-a999-55b813f8fe9a	1	dev.fencepost.job.held	{"owner": "hermes", "state": "held", "job_id": "01a22c1e-9606-7430-a999-55b813f8fe9a", "attempt": 0, "task_id": "approved", "revision": 1, "fencing_token": 0, "execution_digest": "b9feaa8adb1090eb1e27ebb0a168cec479ea2965e240b28c41b18715884b6e00"}	97c8ec75ad3782db32a6aabafcf593ecabea4e750646bfa1677bf6aced2dcbcb	01a22c1e-9607-7239-a43a-48d7f0ff4979	2026-11-30 11:02:11.718281+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
4	01a22c1e-961b-7568-a14a-9d896308a3dd	system	job:01a22c1e-961a-7643-ae7c-519b8306b0da	1	dev.fencepost.job.held	{"owner": "hermes", "state": "held", "job_id": "01a22c1e-961a-7643-ae7c-519b8306b0da", "attempt": 0, "task_id": "rejected", "revision": 1, "fencing_token": 0, "execution_digest": "6e43ecd800684a66dfb2aa657600744aaadeefba7078ae8c1d8143e12c3531f0"}	2de8e32c5eb3aebeabc8db2ddcdb5432e3d9f922df3eb7264026322afffd8c14	01a22c1e-961b-7568-a14a-9d896308a3dd	2026-11-30 11:02:11.738038+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
5	01a22c1e-9630-74fb-8fdf-8aefa2626256	system	job:01a22c1e-962f-7477-952a-792b9a8b7968	1	dev.fencepost.job.queued	{"owner": "hermes", "state": "queued", "job_id": "01a22c1e-962f-7477-952a-792b9a8b7968", "attempt": 0, "task_id": "leased", "revision": 1, "fencing_token": 0, "execution_digest": "4ae6948d7b7812333cf546d8c15075b78d6cc627614ee314eefb48f2a08b99c8"}	32e4b555336aa65de5e9fbf2d8830d4233fcdaa3ace48426d60a08eb64be87a9	01a22c1e-9630-74fb-8fdf-8aefa2626256	2026-11-30 11:02:11.759231+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
6	01a22c1e-9644-7692-a954-f6c2b9605ba8	system	job:01a22c1e-9644-7692-a954-f6c1b4acca1a	1	dev.fencepost.job.queued	{"owner": "hermes", "state": "queued", "job_id": "01a22c1e-9644-7692-a954-f6c1b4acca1a", "attempt": 0, "task_id": "review", "revision": 1, "fencing_token": 0, "execution_digest": "447396e96c8a98ef28a2bdfd84c58aa76fc4c2629bcd6081d0ff3fc57b96fc7b"}	625fe560396c746a49915cf1431bf630aacf8e8c439b4c7627ba3b524969ceb0	01a22c1e-9644-7692-a954-f6c2b9605ba8	2026-11-30 11:02:11.779805+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
7	01a22c1e-9658-768f-b66d-baed1de60856	system	job:01a22c1e-9658-768f-b66d-baecc2ccba48	1	dev.fencepost.job.queued	{"owner": "hermes", "state": "queued", "job_id": "01a22c1e-9658-768f-b66d-baecc2ccba48", "attempt": 0, "task_id": "rework", "revision": 1, "fencing_token": 0, "execution_digest": "81d8fe14cc4b5fac2859fcd1022c06bf6a5bc74475143981074644a4314836c1"}	2df46aee1b94ea2b5f7e7e37b59d8c3073778d385f3c4b5f490746958f3653ba	01a22c1e-9658-768f-b66d-baed1de60856	2026-11-30 11:02:11.799688+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
8	01a22c1e-9669-72d3-b055-cc928282ac26	system	job:01a22c1e-9669-72d3-b055-cc914658c438	1	dev.fencepost.job.queued	{"owner": "hermes", "state": "queued", "job_id": "01a22c1e-9669-72d3-b055-cc914658c438", "attempt": 0, "task_id": "failed", "revision": 1, "fencing_token": 0, "execution_digest": "50ed3d2e32858cf50e78ae5ec651b65ed2e08d3a9075030d855930f5e71d9931"}	f50ef0f70fc20ca1edfa29973c17ec1ff5f4ef1f2d23ca51a7626e4e584da013	01a22c1e-9669-72d3-b055-cc928282ac26	2026-11-30 11:02:11.816976+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
9	01a22c1e-967a-7034-b0c3-4804ad0aa091	system	job:01a22c1e-9679-74ed-920c-2a644e357e1c	1	dev.fencepost.job.queued	{"owner": "hermes", "state": "queued", "job_id": "01a22c1e-9679-74ed-920c-2a644e357e1c", "attempt": 0, "task_id": "escalated", "revision": 1, "fencing_token": 0, "execution_digest": "93b3f66d997bfafd931588a84efb08a00c94df9050ad8aff4a0b584f16d82982"}	b59c5c05893abf07bbfa4c5ace8c9a1b12abd68efdf673c49820d0f51a5d32f1	01a22c1e-967a-7034-b0c3-4804ad0aa091	2026-11-30 11:02:11.833393+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
10	01a22c1e-968d-756f-82bb-72094b159473	system	job:01a22c1e-968d-756f-82bb-72087b88cbaa	1	dev.fencepost.job.queued	{"owner": "hermes", "state": "queued", "job_id": "01a22c1e-968d-756f-82bb-72087b88cbaa", "attempt": 0, "task_id": "permitted", "revision": 1, "fencing_token": 0, "execution_digest": "661da92783ae1830a54c9f5d28a9d3c4b84ca6f8dd904894d7ac918f9420be4a"}	a794f85f9411279f0aabe3c27095d2d9dee590c2cc1544424a628be705b2ff16	01a22c1e-968d-756f-82bb-72094b159473	2026-11-30 11:02:11.852873+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
11	01a22c1e-96a0-7690-b389-8a5570b14b71	system	job:01a22c1e-969f-7395-995a-5ca0fc047bb0	1	dev.fencepost.job.queued	{"owner": "hermes", "state": "queued", "job_id": "01a22c1e-969f-7395-995a-5ca0fc047bb0", "attempt": 0, "task_id": "unknown", "revision": 1, "fencing_token": 0, "execution_digest": "3f11dfad11c5aebd39f857613bac13245bae8891067a2dcfe537b91c03ff8c6c"}	acfef8af68dedb03a82d24b2573571303beef39746ab671cd77e77d9daf8f6fd	01a22c1e-96a0-7690-b389-8a5570b14b71	2026-11-30 11:02:11.871277+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
12	01a22c1e-96b0-7660-882f-b9dbb59cc373	system	job:01a22c1e-96b0-7660-882f-b9da19caf840	1	dev.fencepost.job.queued	{"owner": "hermes", "state": "queued", "job_id": "01a22c1e-96b0-7660-882f-b9da19caf840", "attempt": 0, "task_id": "in-doubt", "revision": 1, "fencing_token": 0, "execution_digest": "4ebc556e93f40b2288922c6c1cb68e6d91c86b5f754a424effe624beacca697f"}	70d4b61bd56b7bca1bd1b71624da55adbd506539308ff64416cd45423270e9c1	01a22c1e-96b0-7660-882f-b9dbb59cc373	2026-11-30 11:02:11.888039+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
13	01a22c1e-96c1-7161-96ba-6d56c988826b	system	job:01a22c1e-96c0-706f-b256-e25de4c9cff9	1	dev.fencepost.job.queued	{"owner": "hermes", "state": "queued", "job_id": "01a22c1e-96c0-706f-b256-e25de4c9cff9", "attempt": 0, "task_id": "settled", "revision": 1, "fencing_token": 0, "execution_digest": "a00cb92aa1867497d958e182506afcfc0d155c9a9c5f55bc9610dccbe4dea774"}	23d44b6f7173df7d1691355d7efd42e47a48e54dd588d91cafbcc96ad6fe8e8f	01a22c1e-96c1-7161-96ba-6d56c988826b	2026-11-30 11:02:11.904458+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
14	01a22c1e-96d3-76d1-b376-a9c74038e5a9	system	job:01a22c1e-96d2-773d-8670-5c2a4d089ca7	1	dev.fencepost.job.queued	{"owner": "openclaw", "state": "queued", "job_id": "01a22c1e-96d2-773d-8670-5c2a4d089ca7", "attempt": 0, "task_id": "worker-done", "revision": 1, "fencing_token": 0, "execution_digest": "34955b46d18ff579cfde2ca502ac3892f3004528b86fc5a203185272395dd377"}	d377e5d7f16aae15ae2b2f9c86f3ab8b138cb7be267e5515fd6539bdf9ad9601	01a22c1e-96d3-76d1-b376-a9c74038e5a9	2026-11-30 11:02:11.922652+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
15	01a22c1e-96e5-7563-84d8-1084b984a201	system	job:01a22c1e-96e4-77b2-886d-97ef25e32ebc	1	dev.fencepost.job.queued	{"owner": "openclaw", "state": "queued", "job_id": "01a22c1e-96e4-77b2-886d-97ef25e32ebc", "attempt": 0, "task_id": "worker-began", "revision": 1, "fencing_token": 0, "execution_digest": "ddcfc1b79262b999e874e60c0be4531ea7c71942f62f72c5bac21cb01d782783"}	fbe7f97ac7cbf39ece85ff3897b3c659a8a79ea6ac95d72a1dfbaca27d045ea8	01a22c1e-96e5-7563-84d8-1084b984a201	2026-11-30 11:02:11.940208+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
16	01a22c1e-96ec-7205-94ee-105cf235963f	system	job:01a22c1e-9606-7430-a999-55b813f8fe9a	2	dev.fencepost.job.approved	{"owner": "hermes", "state": "queued", "job_id": "01a22c1e-9606-7430-a999-55b813f8fe9a", "attempt": 0, "task_id": "approved", "revision": 2, "valid_until": "2026-12-01T11:02:11.948015+00:00", "fencing_token": 0, "execution_digest": "b9feaa8adb1090eb1e27ebb0a168cec479ea2965e240b28c41b18715884b6e00"}	5fd08811c734508fd0ed39850ec2edac6c0631f772b74708b5875ce719bcea61	01a22c1e-96ec-7205-94ee-105cf235963f	2026-11-30 11:02:11.948015+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
17	01a22c1e-96f3-7442-ba5e-e77217d21b23	system	job:01a22c1e-961a-7643-ae7c-519b8306b0da	2	dev.fencepost.job.rejected	{"owner": "hermes", "state": "stopped", "job_id": "01a22c1e-961a-7643-ae7c-519b8306b0da", "attempt": 0, "task_id": "rejected", "revision": 2, "fencing_token": 0}	1dd5c94f1db37e0d6081050e9188b58fac946e652162430e9086abe58a3ab11b	01a22c1e-96f3-7442-ba5e-e77217d21b23	2026-11-30 11:02:11.955084+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
19	01a22c1e-9730-76a3-bd0a-8b4c2abbe301	system	job:01a22c1e-962f-7477-952a-792b9a8b7968	2	dev.fencepost.job.claimed	{"owner": "hermes", "state": "active", "job_id": "01a22c1e-962f-7477-952a-792b9a8b7968", "attempt": 1, "task_id": "leased", "revision": 2, "worker_id": "worker-1", "fencing_token": 1}	af6b322a3026a8f7bf788f1c5489470d0230c9a5722becbc0c8d1164e7564fe1	01a22c1e-9730-76a3-bd0a-8b4c2abbe301	2026-11-30 11:02:12.013355+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
20	01a22c1e-974b-71b0-8aa2-7ee248b15604	system	job:01a22c1e-9644-7692-a954-f6c1b4acca1a	2	dev.fencepost.job.claimed	{"owner": "hermes", "state": "active", "job_id": "01a22c1e-9644-7692-a954-f6c1b4acca1a", "attempt": 1, "task_id": "review", "revision": 2, "worker_id": "worker-1", "fencing_token": 1}	024c47b3916cd11f5f0684b5fa384240101fda75d81343034eae5c88bd793ff0	01a22c1e-974b-71b0-8aa2-7ee248b15604	2026-11-30 11:02:12.042093+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
21	01a22c1e-9762-769a-9296-f353cbc9b27c	system	job:01a22c1e-9644-7692-a954-f6c1b4acca1a	3	dev.fencepost.job.reflected	{"owner": "hermes", "state": "active", "job_id": "01a22c1e-9644-7692-a954-f6c1b4acca1a", "attempt": 1, "task_id": "review", "revision": 2, "fencing_token": 1, "content_sha256": "d2acad87bf168fbf01db7a0f6fedfa92b655565bdd30097b6dc75ef9566ab845", "sequence_number": 1}	5b2b6d35f73bd7e97f17dfb857550f9745f159790633322482a6c47061c044a3	01a22c1e-9762-769a-9296-f353cbc9b27c	2026-11-30 11:02:12.065209+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
22	01a22c1e-9778-77eb-b9ae-d1d29980d74d	system	job:01a22c1e-9644-7692-a954-f6c1b4acca1a	4	dev.fencepost.job.delivered	{"owner": "hermes", "state": "review_required", "job_id": "01a22c1e-9644-7692-a954-f6c1b4acca1a", "attempt": 1, "task_id": "review", "revision": 3, "fencing_token": 1, "outcome_sha256": "e63597935ab67d061bc5e785a67df2bd36cfd4cd156defa531c2539e0b61f6d8"}	428c1bb97b63c117a2cbab961787fb8e5c97c4a24abf8553d017f4c89a6eac69	01a22c1e-9778-77eb-b9ae-d1d29980d74d	2026-11-30 11:02:12.087775+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
23	01a22c1e-978b-770c-88b1-905aeb4d156b	system	job:01a22c1e-9658-768f-b66d-baecc2ccba48	2	dev.fencepost.job.claimed	{"owner": "hermes", "state": "active", "job_id": "01a22c1e-9658-768f-b66d-baecc2ccba48", "attempt": 1, "task_id": "rework", "revision": 2, "worker_id": "worker-1", "fencing_token": 1}	ba235f6588faec1fd677ee65cfcb5c962d40db0b45a04056d9380277e3288238	01a22c1e-978b-770c-88b1-905aeb4d156b	2026-11-30 11:02:12.106667+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
24	01a22c1e-979d-7156-be56-cd647144edaa	system	job:01a22c1e-9658-768f-b66d-baecc2ccba48	3	dev.fencepost.job.reflected	{"owner": "hermes", "state": "active", "job_id": "01a22c1e-9658-768f-b66d-baecc2ccba48", "attempt": 1, "task_id": "rework", "revision": 2, "fencing_token": 1, "content_sha256": "d2acad87bf168fbf01db7a0f6fedfa92b655565bdd30097b6dc75ef9566ab845", "sequence_number": 1}	ab904b08dcc4bca73866f750073b664b8fcefeeea31e1e1d7a705abf21f5ef94	01a22c1e-979d-7156-be56-cd647144edaa	2026-11-30 11:02:12.124975+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
25	01a22c1e-97b0-775c-909c-a1955745895d	system	job:01a22c1e-9658-768f-b66d-baecc2ccba48	4	dev.fencepost.job.delivered	{"owner": "hermes", "state": "review_required", "job_id": "01a22c1e-9658-768f-b66d-baecc2ccba48", "attempt": 1, "task_id": "rework", "revision": 3, "fencing_token": 1, "outcome_sha256": "fd26f5c6f68799003eecc773812d95480142a4fa28211bf86d6f61e68a6ce2c0"}	2f5e24a9472521944c3dc760f00de5d9088f1c211a35c6423ffc81548cbaf211	01a22c1e-97b0-775c-909c-a1955745895d	2026-11-30 11:02:12.143423+00	t	2026-11-30 11:02:13.478622+00	["webhook"]
\.
COPY governance_factsink (id, audit_seq, audit_head, name) FROM stdin;
\.
COPY governance_factstream (id, name, sequence) FROM stdin;
\.
COPY governance_idempotencyrecord (id, principal, operation, key, digest, status, headers, body, created_at, expires_at) FROM stdin;
1	submitter:ops	queue_job	01a22c1e-9482-77f8-ac9a-9a9152b6ffee	\\xd5cdbc2e3495ebc88b1a6cf0a8067abb281f7715eff73d289b072daa504715b8	201	{"ETag": "\\"r1\\""}	\\x7b226f7574636f6d65223a22717565756564222c226a6f62223a7b226a6f625f6964223a2230316132326331652d393564352d373234302d393066302d306563666361623136343832222c227461736b5f6964223a226b65796564222c226f776e6572223a226865726d6573222c227374617465223a22717565756564222c22737461747573223a22717565756564222c22706175736564223a66616c73652c227461736b5f74797065223a22636f6e74656e745f70726570222c227269736b5f74696572223a226c6f77222c227072696f72697479223a226e6f726d616c222c22736f75726365223a226d616e75616c222c227469746c65223a225461736b206b65796564222c22676f616c223a224f75746c6976652074686520757067726164652e222c22696e70757473223a7b7d2c226c6162656c73223a7b7d2c226f75747075745f7265717569726564223a66616c73652c22726f6c6c6261636b5f7265717569726564223a66616c73652c227265766965775f7265717569726564223a66616c73652c22657865637574696f6e5f617070726f76616c5f7265717569726564223a66616c73652c22617474656d7074223a302c22617474656d70745f6e756d626572223a302c226d61785f617474656d707473223a332c227265766973696f6e223a312c22636c61696d65645f6279223a6e756c6c2c22726573756c74223a6e756c6c2c22726573756c745f706f696e746572223a6e756c6c2c226572726f725f636f6465223a6e756c6c2c226572726f725f6d657373616765223a6e756c6c2c22657865637574696f6e5f646967657374223a2230313735363133613936353039623333623538643861633936333635663032343539313066643638366136666431333731653765386163363362643862376133222c22617661696c61626c655f6174223a22323032362d31312d33305431313a30323a31312e3636383834345a222c22646561646c696e655f6174223a6e756c6c2c22657870697265735f69665f6e6f745f737461727465645f6174223a6e756c6c2c22637265617465645f6174223a22323032362d31312d33305431313a30323a31312e3636383834345a222c2273746174655f73696e6365223a22323032362d31312d33305431313a30323a31312e3636383834345a222c2266696e69736865645f6174223a6e756c6c7d7d	2026-11-30 11:02:11.681281+00	2100-01-01 00:00:00+00
2	submitter:ops	set_admission	01a22c1e-96f8-70fe-957a-cade4d058a79	\\x04af9c6b2d823215c39d93d22db1a1d47411d88a6794aee0f3beb4c9a4de3ce1	200	{}	\\x7b227374617465223a22636c6f736564222c2267656e65726174696f6e223a322c22626172726965725f6964223a226265666f72652d7468652d75706772616465222c226163746976655f6c6561736573223a307d	2026-11-30 11:02:11.985213+00	2100-01-01 00:00:00+00
3	agent:hermes	claim_job	01a22c1e-9716-71d1-8d19-25228eea7f16	\\x78abb7e95f7d2f9460b943776f846c13a1d08af4b0d9b7354cd04373759a2821	200	{"ETag": "\\"r2\\""}	\\x7b226f7574636f6d65223a22636c61696d6564222c226a6f62223a7b226a6f625f6964223a2230316132326331652d393632662d373437372d393532612d373932623961386237393638222c227461736b5f6964223a226c6561736564222c226f776e6572223a226865726d6573222c227374617465223a22616374697665222c22737461747573223a22616374697665222c22706175736564223a66616c73652c227461736b5f74797065223a22636f6e74656e745f70726570222c227269736b5f74696572223a226c6f77222c227072696f72697479223a226e6f726d616c222c22736f75726365223a226d616e75616c222c227469746c65223a225461736b206c6561736564222c22676f616c223a224f75746c6976652074686520757067726164652e222c22696e70757473223a7b7d2c226c6162656c73223a7b7d2c226f75747075745f7265717569726564223a66616c73652c22726f6c6c6261636b5f7265717569726564223a66616c73652c227265766965775f7265717569726564223a66616c73652c22657865637574696f6e5f617070726f76616c5f7265717569726564223a66616c73652c22617474656d7074223a312c22617474656d70745f6e756d626572223a312c226d61785f617474656d707473223a332c227265766973696f6e223a322c22636c61696d65645f6279223a22776f726b65722d31222c22726573756c74223a6e756c6c2c22726573756c745f706f696e746572223a6e756c6c2c226572726f725f636f6465223a6e756c6c2c226572726f725f6d657373616765223a6e756c6c2c22657865637574696f6e5f646967657374223a2234616536393438643762373831323333336366353436643863313530373562373864366363363237363134656533313465656662343866326130386239396338222c22617661696c61626c655f6174223a22323032362d31312d33305431313a30323a31312e3735393233315a222c22646561646c696e655f6174223a6e756c6c2c22657870697265735f69665f6e6f745f737461727465645f6174223a6e756c6c2c22637265617465645f6174223a22323032362d31312d33305431313a30323a31312e3735393233315a222c2273746174655f73696e6365223a22323032362d31312d33305431313a30323a31322e3031333335355a222c2266696e69736865645f6174223a6e756c6c2c2266656e63696e675f746f6b656e223a312c2272756e74696d65223a22636f6d6d616e64222c226c65617365223a7b2274746c5f7365636f6e6473223a3930302c226865617274626561745f696e74657276616c5f7365636f6e6473223a36302c22657870697265735f6174223a22323032362d31312d33305431313a31373a31322e3031333335355a227d2c22656e76656c6f7065223a7b227061796c6f6164223a2265794a685a32567564434936496d686c636d316c63794973496d56345a574e3164476c76626c39686348427962335a68624639795a58463161584a6c5a4349365a6d467363325573496d6476595777694f694a506458527361585a6c4948526f5a534231634764795957526c4c694973496d6c75634856306379493665333073496d6c7a6333566c5a46396864434936496a49774d6a59744d5445744d7a42554d5445364d4449364d5445754e7a55354d6a4d7857694973496d7076596c39705a434936496a417859544979597a466c4c546b324d6d59744e7a51334e7930354e544a684c5463354d6d4935595468694e7a6b324f434973496d393164484231644639795a58463161584a6c5a4349365a6d467363325573496e4a6c646d6c6c643139795a58463161584a6c5a4349365a6d467363325573496e4a706332746664476c6c63694936496d787664794973496e4a766247786959574e7258334a6c63585670636d566b496a706d5957787a5a5377696447467a613139705a434936496d786c59584e6c5a434973496e52686332746664486c775a534936496d4e76626e526c626e526663484a6c63434973496e52706447786c496a6f695647467a617942735a57467a5a57516966513d3d222c227369676e617475726573223a5b7b22736967223a2245664864506d6e4d4171482b42434f41782f673537546f3343335a577762384b394c6341462b646e686664364c6e3978644c3576734c6c4f4e334464636530574944346e676b6b4f69516a596239644f572f6d4943773d3d222c226b65796964223a2232376331356364343865623836346330343031303137323638373066666638386465633032363164363932633934393831383538666139613539616563313766227d5d2c227061796c6f616454797065223a226170706c69636174696f6e2f766e642e66656e6365706f73742e657865637574696f6e2d656e76656c6f70652b6a736f6e227d2c22617474656d70745f646561646c696e655f6174223a6e756c6c2c2270726576696f75735f70726f6772657373223a6e756c6c2c227265776f726b223a6e756c6c7d2c22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c2272756e74696d65223a22636f6d6d616e64222c226c65617365223a7b2274746c5f7365636f6e6473223a3930302c226865617274626561745f696e74657276616c5f7365636f6e6473223a36302c22657870697265735f6174223a22323032362d31312d33305431313a31373a31322e3031333335355a227d2c22656e76656c6f7065223a7b227061796c6f6164223a2265794a685a32567564434936496d686c636d316c63794973496d56345a574e3164476c76626c39686348427962335a68624639795a58463161584a6c5a4349365a6d467363325573496d6476595777694f694a506458527361585a6c4948526f5a534231634764795957526c4c694973496d6c75634856306379493665333073496d6c7a6333566c5a46396864434936496a49774d6a59744d5445744d7a42554d5445364d4449364d5445754e7a55354d6a4d7857694973496d7076596c39705a434936496a417859544979597a466c4c546b324d6d59744e7a51334e7930354e544a684c5463354d6d4935595468694e7a6b324f434973496d393164484231644639795a58463161584a6c5a4349365a6d467363325573496e4a6c646d6c6c643139795a58463161584a6c5a4349365a6d467363325573496e4a706332746664476c6c63694936496d787664794973496e4a766247786959574e7258334a6c63585670636d566b496a706d5957787a5a5377696447467a613139705a434936496d786c59584e6c5a434973496e52686332746664486c775a534936496d4e76626e526c626e526663484a6c63434973496e52706447786c496a6f695647467a617942735a57467a5a57516966513d3d222c227369676e617475726573223a5b7b22736967223a2245664864506d6e4d4171482b42434f41782f673537546f3343335a577762384b394c6341462b646e686664364c6e3978644c3576734c6c4f4e334464636530574944346e676b6b4f69516a596239644f572f6d4943773d3d222c226b65796964223a2232376331356364343865623836346330343031303137323638373066666638386465633032363164363932633934393831383538666139613539616563313766227d5d2c227061796c6f616454797065223a226170706c69636174696f6e2f766e642e66656e6365706f73742e657865637574696f6e2d656e76656c6f70652b6a736f6e227d2c22657865637574696f6e5f646967657374223a2234616536393438643762373831323333336366353436643863313530373562373864366363363237363134656533313465656662343866326130386239396338222c22617474656d70745f646561646c696e655f6174223a6e756c6c2c2270726576696f75735f70726f6772657373223a6e756c6c2c227265776f726b223a6e756c6c7d	2026-11-30 11:02:12.021003+00	2100-01-01 00:00:00+00
4	agent:openclaw	activate	01a22c1e-9a21-764f-9629-e4053c7a00a8	\\x62d6b75fc02abe2768b8f9ba673d96e321f8c0dd2afaae0a1ab6df58433181a0	200	{}	\\x7b2273657373696f6e5f6964223a2230316132326331652d396133622d373732332d393838652d633230616533643065643861222c2273657373696f6e5f67656e65726174696f6e223a312c22646973706174636865725f65706f6368223a2239616536636230652d656265382d343966342d383837352d353036626263613865326432222c226865617274626561745f696e74657276616c5f7365636f6e6473223a32302c227374617465223a2263757272656e74222c226167656e74223a226f70656e636c6177222c2263656c6c5f6964223a2263656c6c2d37222c22626f6f745f6964223a2230316132326331652d396132312d373634662d393632392d653430333033323962643133222c227265626f756e64223a66616c73652c2263726564656e7469616c223a7b22707265666978223a225a537475374b536a47445231222c2273636f706573223a5b2261646d6974222c2272656164222c22776f726b225d2c22657870697265735f6174223a6e756c6c7d7d	2026-11-30 11:02:12.804094+00	2100-01-01 00:00:00+00
5	agent:openclaw	claim_jobs	01a22c1e-9a49-7439-9cc0-8dbfb6cf7992	\\x83b0a4af62d6384fc78e09e6c4befb7ca0ee5eb123312b7c52124c016777f18e	200	{}	\\x7b22726573756c7473223a5b7b22737461747573223a3230302c226f7574636f6d65223a22636c61696d6564222c226a6f62223a7b226a6f625f6964223a2230316132326331652d393664322d373733642d383637302d356332613464303839636137222c227461736b5f6964223a22776f726b65722d646f6e65222c226f776e6572223a226f70656e636c6177222c227374617465223a22616374697665222c22737461747573223a22616374697665222c22706175736564223a66616c73652c227461736b5f74797065223a2272657772697465222c227269736b5f74696572223a226c6f77222c227072696f72697479223a226e6f726d616c222c22736f75726365223a226d616e75616c222c227469746c65223a225461736b20776f726b65722d646f6e65222c22676f616c223a224f75746c6976652074686520757067726164652e222c22696e70757473223a7b7d2c226c6162656c73223a7b7d2c226f75747075745f7265717569726564223a66616c73652c22726f6c6c6261636b5f7265717569726564223a66616c73652c227265766965775f7265717569726564223a66616c73652c22657865637574696f6e5f617070726f76616c5f7265717569726564223a66616c73652c22617474656d7074223a312c22617474656d70745f6e756d626572223a312c226d61785f617474656d707473223a332c227265766973696f6e223a322c22636c61696d65645f6279223a226f70656e636c61772d37222c22726573756c74223a6e756c6c2c22726573756c745f706f696e746572223a6e756c6c2c226572726f725f636f6465223a6e756c6c2c226572726f725f6d657373616765223a6e756c6c2c22657865637574696f6e5f646967657374223a2233343935356234366431386666353739636664653263613530326163333839326633303034353238623836666335613230333138353237323339356464333737222c22617661696c61626c655f6174223a22323032362d31312d33305431313a30323a31312e3932323635325a222c22646561646c696e655f6174223a6e756c6c2c22657870697265735f69665f6e6f745f737461727465645f6174223a6e756c6c2c22637265617465645f6174223a22323032362d31312d33305431313a30323a31312e3932323635325a222c2273746174655f73696e6365223a22323032362d31312d33305431313a30323a31322e3833353238395a222c2266696e69736865645f6174223a6e756c6c2c2266656e63696e675f746f6b656e223a312c2272756e74696d65223a22636f6d6d616e64222c226c65617365223a7b2274746c5f7365636f6e6473223a3930302c226865617274626561745f696e74657276616c5f7365636f6e6473223a36302c22657870697265735f6174223a22323032362d31312d33305431313a31373a31322e3833353238395a227d2c22656e76656c6f7065223a7b227061796c6f6164223a2265794a685a32567564434936496d39775a57356a62474633496977695a58686c59335630615739755832467763484a76646d467358334a6c63585670636d566b496a706d5957787a5a5377695a32396862434936496b393164477870646d55676447686c494856775a334a685a47557549697769615735776458527a496a70376653776961584e7a6457566b58324630496a6f694d6a41794e6930784d53307a4d4651784d546f774d6a6f784d5334354d6a49324e544a6149697769616d396958326c6b496a6f694d4446684d6a4a6a4d5755744f545a6b4d6930334e7a4e6b4c5467324e7a41744e574d795954526b4d4467355932453349697769623356306348563058334a6c63585670636d566b496a706d5957787a5a537769636d56326157563358334a6c63585670636d566b496a706d5957787a5a537769636d6c7a6131393061575679496a6f696247393349697769636d397362474a6859327466636d567864576c795a5751694f6d5a6862484e6c4c434a3059584e7258326c6b496a6f6964323979613256794c575276626d55694c434a3059584e7258335235634755694f694a795a5864796158526c4969776964476c30624755694f694a5559584e7249486476636d746c6369316b6232356c496e303d222c227369676e617475726573223a5b7b22736967223a22426937734d4a5a56326d6770575a6854374e733766316c7341334169777a594958716952697768685779566f425a555148386d3874336177357a44413669596a5a57325846544d6d47687159594b6e307643684542773d3d222c226b65796964223a2232376331356364343865623836346330343031303137323638373066666638386465633032363164363932633934393831383538666139613539616563313766227d5d2c227061796c6f616454797065223a226170706c69636174696f6e2f766e642e66656e6365706f73742e657865637574696f6e2d656e76656c6f70652b6a736f6e227d2c22617474656d70745f646561646c696e655f6174223a6e756c6c2c2270726576696f75735f70726f6772657373223a6e756c6c2c227265776f726b223a6e756c6c7d2c22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c2272756e74696d65223a22636f6d6d616e64222c226c65617365223a7b2274746c5f7365636f6e6473223a3930302c226865617274626561745f696e74657276616c5f7365636f6e6473223a36302c22657870697265735f6174223a22323032362d31312d33305431313a31373a31322e3833353238395a227d2c22656e76656c6f7065223a7b227061796c6f6164223a2265794a685a32567564434936496d39775a57356a62474633496977695a58686c59335630615739755832467763484a76646d467358334a6c63585670636d566b496a706d5957787a5a5377695a32396862434936496b393164477870646d55676447686c494856775a334a685a47557549697769615735776458527a496a70376653776961584e7a6457566b58324630496a6f694d6a41794e6930784d53307a4d4651784d546f774d6a6f784d5334354d6a49324e544a6149697769616d396958326c6b496a6f694d4446684d6a4a6a4d5755744f545a6b4d6930334e7a4e6b4c5467324e7a41744e574d795954526b4d4467355932453349697769623356306348563058334a6c63585670636d566b496a706d5957787a5a537769636d56326157563358334a6c63585670636d566b496a706d5957787a5a537769636d6c7a6131393061575679496a6f696247393349697769636d397362474a6859327466636d567864576c795a5751694f6d5a6862484e6c4c434a3059584e7258326c6b496a6f6964323979613256794c575276626d55694c434a3059584e7258335235634755694f694a795a5864796158526c4969776964476c30624755694f694a5559584e7249486476636d746c6369316b6232356c496e303d222c227369676e617475726573223a5b7b22736967223a22426937734d4a5a56326d6770575a6854374e733766316c7341334169777a594958716952697768685779566f425a555148386d3874336177357a44413669596a5a57325846544d6d47687159594b6e307643684542773d3d222c226b65796964223a2232376331356364343865623836346330343031303137323638373066666638386465633032363164363932633934393831383538666139613539616563313766227d5d2c227061796c6f616454797065223a226170706c69636174696f6e2f766e642e66656e6365706f73742e657865637574696f6e2d656e76656c6f70652b6a736f6e227d2c22657865637574696f6e5f646967657374223a2233343935356234366431386666353739636664653263613530326163333839326633303034353238623836666335613230333138353237323339356464333737222c22617474656d70745f646561646c696e655f6174223a6e756c6c2c2270726576696f75735f70726f6772657373223a6e756c6c2c227265776f726b223a6e756c6c7d2c7b22737461747573223a3230302c226f7574636f6d65223a22636c61696d6564222c226a6f62223a7b226a6f625f6964223a2230316132326331652d393665342d373762322d383836642d393765663235653332656263222c227461736b5f6964223a22776f726b65722d626567616e222c226f776e6572223a226f70656e636c6177222c227374617465223a22616374697665222c22737461747573223a22616374697665222c22706175736564223a66616c73652c227461736b5f74797065223a2272657772697465222c227269736b5f74696572223a226c6f77222c227072696f72697479223a226e6f726d616c222c22736f75726365223a226d616e75616c222c227469746c65223a225461736b20776f726b65722d626567616e222c22676f616c223a224f75746c6976652074686520757067726164652e222c22696e70757473223a7b7d2c226c6162656c73223a7b7d2c226f75747075745f7265717569726564223a66616c73652c22726f6c6c6261636b5f7265717569726564223a66616c73652c227265766965775f7265717569726564223a66616c73652c22657865637574696f6e5f617070726f76616c5f7265717569726564223a66616c73652c22617474656d7074223a312c22617474656d70745f6e756d626572223a312c226d61785f617474656d707473223a332c227265766973696f6e223a322c22636c61696d65645f6279223a226f70656e636c61772d37222c22726573756c74223a6e756c6c2c22726573756c745f706f696e746572223a6e756c6c2c226572726f725f636f6465223a6e756c6c2c226572726f725f6d657373616765223a6e756c6c2c22657865637574696f6e5f646967657374223a2264646366633162373932363262393939653837346536306330626534353331656137633731393432663632663732633562616332316362303164373832373833222c22617661696c61626c655f6174223a22323032362d31312d33305431313a30323a31312e3934303230385a222c22646561646c696e655f6174223a6e756c6c2c22657870697265735f69665f6e6f745f737461727465645f6174223a6e756c6c2c22637265617465645f6174223a22323032362d31312d33305431313a30323a31312e3934303230385a222c2273746174655f73696e6365223a22323032362d31312d33305431313a30323a31322e3833353238395a222c2266696e69736865645f6174223a6e756c6c2c2266656e63696e675f746f6b656e223a312c2272756e74696d65223a22636f6d6d616e64222c226c65617365223a7b2274746c5f7365636f6e6473223a3930302c226865617274626561745f696e74657276616c5f7365636f6e6473223a36302c22657870697265735f6174223a22323032362d31312d33305431313a31373a31322e3833353238395a227d2c22656e76656c6f7065223a7b227061796c6f6164223a2265794a685a32567564434936496d39775a57356a62474633496977695a58686c59335630615739755832467763484a76646d467358334a6c63585670636d566b496a706d5957787a5a5377695a32396862434936496b393164477870646d55676447686c494856775a334a685a47557549697769615735776458527a496a70376653776961584e7a6457566b58324630496a6f694d6a41794e6930784d53307a4d4651784d546f774d6a6f784d5334354e4441794d44686149697769616d396958326c6b496a6f694d4446684d6a4a6a4d5755744f545a6c4e4330334e3249794c5467344e6d51744f54646c5a6a49315a544d795a574a6a49697769623356306348563058334a6c63585670636d566b496a706d5957787a5a537769636d56326157563358334a6c63585670636d566b496a706d5957787a5a537769636d6c7a6131393061575679496a6f696247393349697769636d397362474a6859327466636d567864576c795a5751694f6d5a6862484e6c4c434a3059584e7258326c6b496a6f6964323979613256794c574a6c5a324675496977696447467a613139306558426c496a6f69636d5633636d6c305a534973496e52706447786c496a6f695647467a6179423362334a725a584974596d566e5957346966513d3d222c227369676e617475726573223a5b7b22736967223a224e503556595256383370686f69615031586e555a386f336e4c4a7935327862644b35787642634e63527250446d4f396862706d546262627a6f47774a2b70593530544a5469464157457279537252396c336e327043673d3d222c226b65796964223a2232376331356364343865623836346330343031303137323638373066666638386465633032363164363932633934393831383538666139613539616563313766227d5d2c227061796c6f616454797065223a226170706c69636174696f6e2f766e642e66656e6365706f73742e657865637574696f6e2d656e76656c6f70652b6a736f6e227d2c22617474656d70745f646561646c696e655f6174223a6e756c6c2c2270726576696f75735f70726f6772657373223a6e756c6c2c227265776f726b223a6e756c6c7d2c22617474656d7074223a312c2266656e63696e675f746f6b656e223a312c2272756e74696d65223a22636f6d6d616e64222c226c65617365223a7b2274746c5f7365636f6e6473223a3930302c226865617274626561745f696e74657276616c5f7365636f6e6473223a36302c22657870697265735f6174223a22323032362d31312d33305431313a31373a31322e3833353238395a227d2c22656e76656c6f7065223a7b227061796c6f6164223a2265794a685a32567564434936496d39775a57356a62474633496977695a58686c59335630615739755832467763484a76646d467358334a6c63585670636d566b496a706d5957787a5a5377695a32396862434936496b393164477870646d55676447686c494856775a334a685a47557549697769615735776458527a496a70376653776961584e7a6457566b58324630496a6f694d6a41794e6930784d53307a4d4651784d546f774d6a6f784d5334354e4441794d44686149697769616d396958326c6b496a6f694d4446684d6a4a6a4d5755744f545a6c4e4330334e3249794c5467344e6d51744f54646c5a6a49315a544d795a574a6a49697769623356306348563058334a6c63585670636d566b496a706d5957787a5a537769636d56326157563358334a6c63585670636d566b496a706d5957787a5a537769636d6c7a6131393061575679496a6f696247393349697769636d397362474a6859327466636d567864576c795a5751694f6d5a6862484e6c4c434a3059584e7258326c6b496a6f6964323979613256794c574a6c5a324675496977696447467a613139306558426c496a6f69636d5633636d6c305a534973496e52706447786c496a6f695647467a6179423362334a725a584974596d566e5957346966513d3d222c227369676e617475726573223a5b7b22736967223a224e503556595256383370686f69615031586e555a386f336e4c4a7935327862644b35787642634e63527250446d4f396862706d546262627a6f47774a2b70593530544a5469464157457279537252396c336e327043673d3d222c226b65796964223a2232376331356364343865623836346330343031303137323638373066666638386465633032363164363932633934393831383538666139613539616563313766227d5d2c227061796c6f616454797065223a226170706c69636174696f6e2f766e642e66656e6365706f73742e657865637574696f6e2d656e76656c6f70652b6a736f6e227d2c22657865637574696f6e5f646967657374223a2264646366633162373932363262393939653837346536306330626534353331656137633731393432663632663732633562616332316362303164373832373833222c22617474656d70745f646561646c696e655f6174223a6e756c6c2c2270726576696f75735f70726f6772657373223a6e756c6c2c227265776f726b223a6e756c6c7d5d2c2272657472795f61667465725f7365636f6e6473223a6e756c6c7d	2026-11-30 11:02:12.842307+00	2100-01-01 00:00:00+00
\.
COPY governance_languagemodel (id, audit_seq, audit_head, provider, name, enabled, capabilities, context_tokens_max, output_tokens_max) FROM stdin;
1	2	\\x77f1052d6ba35a0a86fd3198ff0b6280a89b981b9890bac9289118d6f76a413a	local	stand-in	t	[]	\N	\N
\.
COPY governance_price (id, input_rate, cached_input_rate, output_rate, reasoning_rate, source, version, starts_at, ends_at, call_rate, currency, model_id) FROM stdin;
1	1.000000000000	\N	2.000000000000	\N	override	override 2026-11-30T11:02:11.302597Z	2026-11-30 11:02:11.302597+00	\N	0.000000000000	USD	1
\.
COPY governance_pricetier (id, input_rate, cached_input_rate, output_rate, reasoning_rate, above_input_tokens, price_id) FROM stdin;
\.
COPY governance_prunedfact (id, fact_id, principal, content_sha256, receipt_id, sequence, recorded_at) FROM stdin;
\.
COPY governance_pulse (id, name, at, details) FROM stdin;
\.
COPY governance_reservation (reservation_id, route_request_id, external_request_id, task_id, job_id, attempt, fencing_token, agent, amount, currency, state, reserved_at, decision_id) FROM stdin;
01a22c1e-9892-7549-93a9-56ae5b47e541	xr_05bf34944774dbd677759b7186d80e8083014b4add36c4a593097879a3ef20bc:model	xr_05bf34944774dbd677759b7186d80e8083014b4add36c4a593097879a3ef20bc	permitted	01a22c1e-968d-756f-82bb-72087b88cbaa	1	1	hermes	0.003000000000	USD	held	2026-11-30 11:02:12.367255+00	01a22c1e-9892-7549-93a9-56ad7725d653
01a22c1e-98b2-707b-b326-0c0e8e9ca247	xr_ac6912078f87f438f9107457bec3d3443077c81ce00b83d9fa0267034b943bb8:model	xr_ac6912078f87f438f9107457bec3d3443077c81ce00b83d9fa0267034b943bb8	unknown	01a22c1e-969f-7395-995a-5ca0fc047bb0	1	1	hermes	0.003000000000	USD	in_doubt	2026-11-30 11:02:12.400694+00	01a22c1e-98b2-707b-b326-0c0d01d08f4e
01a22c1e-98d8-742d-9233-436142c4f7fc	xr_aac0348a774d3a3407a15355730a1c1f1b3348fc7cfc3d3e7a5adccbe1846276:model	xr_aac0348a774d3a3407a15355730a1c1f1b3348fc7cfc3d3e7a5adccbe1846276	settled	01a22c1e-96c0-706f-b256-e25de4c9cff9	1	1	hermes	0.003000000000	USD	settled	2026-11-30 11:02:12.438366+00	01a22c1e-98d8-742d-9233-43609787b1d6
01a22c1e-990e-704f-b714-a1de578106a5	xr_582302ea1de8c0d037ae77ea6ea35be0579f8570d45b68493b00107f40aa0146:model	xr_582302ea1de8c0d037ae77ea6ea35be0579f8570d45b68493b00107f40aa0146	in-doubt	01a22c1e-96b0-7660-882f-b9da19caf840	1	1	hermes	0.003000000000	USD	in_doubt	2026-11-30 11:02:12.49252+00	01a22c1e-990e-704f-b714-a1dd37e4c3e9
\.
COPY governance_reservationhold (id, reservation_id, window_id) FROM stdin;
1	01a22c1e-9892-7549-93a9-56ae5b47e541	1
2	01a22c1e-9892-7549-93a9-56ae5b47e541	2
3	01a22c1e-98b2-707b-b326-0c0e8e9ca247	1
4	01a22c1e-98b2-707b-b326-0c0e8e9ca247	2
5	01a22c1e-98d8-742d-9233-436142c4f7fc	1
6	01a22c1e-98d8-742d-9233-436142c4f7fc	2
7	01a22c1e-990e-704f-b714-a1de578106a5	1
8	01a22c1e-990e-704f-b714-a1de578106a5	2
\.
COPY governance_resolution (reservation_id, ended_as, cost, cost_basis, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, overrun, usage_missing, provider_response_id, error_code, content_sha256, resolved_by, reason, resolved_at) FROM stdin;
01a22c1e-98d8-742d-9233-436142c4f7fc	settled	0.000700000000	usage	500	0	100	0	f	f			1facaac75f3f2416509e18e92a517d404d72dab302b224ca6ae0feadd7dda3a3	agent:hermes		2026-11-30 11:02:12.470561+00
\.
COPY governance_routedecision (decision_id, route_request_id, external_request_id, call, task_id, job_id, attempt, fencing_token, agent, job_type, risk_tier, runtime, estimated_input_tokens, max_output_tokens, requirements, content_sha256, decision, reason, "position", price_version, considered, decided_at, model_id, price_id, policy_id) FROM stdin;
01a22c1e-9892-7549-93a9-56ad7725d653	xr_05bf34944774dbd677759b7186d80e8083014b4add36c4a593097879a3ef20bc:model	xr_05bf34944774dbd677759b7186d80e8083014b4add36c4a593097879a3ef20bc	1	permitted	01a22c1e-968d-756f-82bb-72087b88cbaa	1	1	hermes	content_prep	low	command	1000	1000	[]	8a51b962ad8dc583642185038af2dd27fed952cc86267dd5b83ff449ed675f2d	issued		1	override 2026-11-30T11:02:11.302597Z	[{"over": [], "model": "stand-in", "amount": "0.003", "outcome": "chosen", "position": 1, "provider": "local", "price_version": "override 2026-11-30T11:02:11.302597Z"}]	2026-11-30 11:02:12.367255+00	1	1	1
01a22c1e-98b2-707b-b326-0c0d01d08f4e	xr_ac6912078f87f438f9107457bec3d3443077c81ce00b83d9fa0267034b943bb8:model	xr_ac6912078f87f438f9107457bec3d3443077c81ce00b83d9fa0267034b943bb8	1	unknown	01a22c1e-969f-7395-995a-5ca0fc047bb0	1	1	hermes	content_prep	low	command	1000	1000	[]	4223f84db83bf17df2cb68ffa11a12c98ec111885710d7c762f228c50d04fb98	issued		1	override 2026-11-30T11:02:11.302597Z	[{"over": [], "model": "stand-in", "amount": "0.003", "outcome": "chosen", "position": 1, "provider": "local", "price_version": "override 2026-11-30T11:02:11.302597Z"}]	2026-11-30 11:02:12.400694+00	1	1	1
01a22c1e-98d8-742d-9233-43609787b1d6	xr_aac0348a774d3a3407a15355730a1c1f1b3348fc7cfc3d3e7a5adccbe1846276:model	xr_aac0348a774d3a3407a15355730a1c1f1b3348fc7cfc3d3e7a5adccbe1846276	1	settled	01a22c1e-96c0-706f-b256-e25de4c9cff9	1	1	hermes	content_prep	low	command	1000	1000	[]	d2f4c6dcc3cc5420e0b18a4100c3c6ec2b7d136905ffe18899719d716c778f34	issued		1	override 2026-11-30T11:02:11.302597Z	[{"over": [], "model": "stand-in", "amount": "0.003", "outcome": "chosen", "position": 1, "provider": "local", "price_version": "override 2026-11-30T11:02:11.302597Z"}]	2026-11-30 11:02:12.438366+00	1	1	1
01a22c1e-990e-704f-b714-a1dd37e4c3e9	xr_582302ea1de8c0d037ae77ea6ea35be0579f8570d45b68493b00107f40aa0146:model	xr_582302ea1de8c0d037ae77ea6ea35be0579f8570d45b68493b00107f40aa0146	1	in-doubt	01a22c1e-96b0-7660-882f-b9da19caf840	1	1	hermes	content_prep	low	command	1000	1000	[]	0fe6caf3b5274f3d6ef0f0c616f98a757a3dbfb06a8a8d19384ccc56eee53c4b	issued		1	override 2026-11-30T11:02:11.302597Z	[{"over": [], "model": "stand-in", "amount": "0.003", "outcome": "chosen", "position": 1, "provider": "local", "price_version": "override 2026-11-30T11:02:11.302597Z"}]	2026-11-30 11:02:12.49252+00	1	1	1
\.
COPY governance_routepolicy (id, audit_seq, audit_head, agent, job_type, risk_tier, created_at, retired_at) FROM stdin;
1	1	\\x363f662eede9157d5ea92f9703fa2882247526bd464b9233d26444f2c7892805				2026-11-30 11:02:11.308315+00	\N
\.
COPY governance_routepolicymodel (id, "position", model_id, policy_id) FROM stdin;
1	1	1	1
\.
COPY governance_savedview (id, model, name, query, shared, owner_id) FROM stdin;
1	jobs.job	Mine	state=held	f	1
\.
COPY governance_streamhold (id, sink, stream, tries, last_error, failed_at, next_try_at, parked_at, fact_id) FROM stdin;
\.
COPY jobs_approval (id, execution_digest, decision, decided_by, decided_at, reason, valid_until, job_id) FROM stdin;
1	b9feaa8adb1090eb1e27ebb0a168cec479ea2965e240b28c41b18715884b6e00	approved	user:ben	2026-11-30 11:02:11.948015+00	decided before the upgrade	2026-12-01 11:02:11.948015+00	3
2	6e43ecd800684a66dfb2aa657600744aaadeefba7078ae8c1d8143e12c3531f0	rejected	user:ben	2026-11-30 11:02:11.955084+00	decided before the upgrade	\N	4
\.
COPY jobs_attempt (id, number, fencing_token, worker_id, runtime, lease_seconds, claimed_at, deadline_at, claim_key, claim_answers, ended_at, outcome, outcome_sha256, needs_review, retryable, error_code, error_message, result, result_pointer, progress, session_id, job_id, governed) FROM stdin;
1	1	1	worker-1	command	900	2026-11-30 11:02:12.013355+00	\N	01a22c1e-9716-71d1-8d19-25228eea7f16	1	\N	\N		f	\N			\N		\N	1	5	f
2	1	1	worker-1	command	900	2026-11-30 11:02:12.042093+00	\N	\N	1	2026-11-30 11:02:12.087775+00	completed	e63597935ab67d061bc5e785a67df2bd36cfd4cd156defa531c2539e0b61f6d8	f	\N			{"text": "review"}		\N	1	6	f
3	1	1	worker-1	command	900	2026-11-30 11:02:12.106667+00	\N	\N	1	2026-11-30 11:02:12.143423+00	completed	fd26f5c6f68799003eecc773812d95480142a4fa28211bf86d6f61e68a6ce2c0	f	\N			{"text": "rework"}		\N	1	7	f
4	1	1	worker-1	command	900	2026-11-30 11:02:12.166385+00	\N	\N	1	2026-11-30 11:02:12.1852+00	failed	7bc34ec47aca766ee033ea1038fbb5f192a3263b4caa43cd4543c613e96641b3	f	t	BROKE	It broke.	\N		\N	1	8	f
5	1	1	worker-1	command	900	2026-11-30 11:02:12.202318+00	\N	\N	1	2026-11-30 11:02:12.221503+00	escalated	dea12a054594d17fe710ba6633c0379ba3838b123ec03f843e9ee13b058b8961	f	\N			\N		\N	1	9	f
6	1	1	01a22c1e-9878-7360-bbc5-5af8bd375015	command	900	2026-11-30 11:02:12.354707+00	\N	\N	1	\N	\N		f	\N			\N		\N	2	10	t
7	1	1	01a22c1e-9878-7360-bbc5-5af8bd375015	command	900	2026-11-30 11:02:12.391257+00	\N	\N	1	\N	\N		f	\N			\N		\N	2	11	t
8	1	1	01a22c1e-9878-7360-bbc5-5af8bd375015	command	900	2026-11-30 11:02:12.430219+00	\N	\N	1	2026-11-30 11:02:12.479862+00	completed	fa2765853ac38439952de3853bf221eac2b1c91fb2b3a40883559de3db4207c7	f	\N			{"text": "settled"}		\N	2	13	t
9	1	1	01a22c1e-9878-7360-bbc5-5af8bd375015	command	900	2026-11-30 11:02:12.484545+00	\N	\N	1	2026-11-30 11:02:12.521301+00	failed	076dc686b0db58a0bc7d1308588d3acf6f2d60a49c920bf8870e3b9da734ffbc	f	t	OUTCOME_UNKNOWN	The worker was lost.	\N		\N	2	12	t
10	1	1	openclaw-7	command	900	2026-11-30 11:02:12.835289+00	\N	01a22c1e-9a49-7439-9cc0-8dbfb6cf7992	1	\N	\N		f	\N			\N		\N	3	14	f
11	1	1	openclaw-7	command	900	2026-11-30 11:02:12.835289+00	\N	01a22c1e-9a49-7439-9cc0-8dbfb6cf7992	1	\N	\N		f	\N			\N		\N	3	15	f
\.
COPY jobs_escalation (id, attempt, raised_by, raised_at, reason, notify_to, resolution, resolved_by, resolved_at, resolve_reason, job_id) FROM stdin;
1	1	agent:hermes	2026-11-30 11:02:12.221503+00	Ask a person.		\N		\N		9
\.
COPY jobs_execution (id, external_request_id, attempt, fencing_token, reservation_id, mode, runtime, execution_digest, request_sha256, state, refusal_reason, decided_at, deadline_at, resulted_at, result_sha256, outcome_sha256, result, result_pointer, usage, error_code, job_id, permit_id) FROM stdin;
1	xr_ac6912078f87f438f9107457bec3d3443077c81ce00b83d9fa0267034b943bb8	1	1	01a22c1e-98b2-707b-b326-0c0e8e9ca247	mock	command	3f11dfad11c5aebd39f857613bac13245bae8891067a2dcfe537b91c03ff8c6c	abababababababababababababababababababababababababababababababab	unknown		2026-11-30 11:02:12.417716+00	2100-01-01 00:00:00+00	\N			\N		\N		11	2
2	xr_aac0348a774d3a3407a15355730a1c1f1b3348fc7cfc3d3e7a5adccbe1846276	1	1	01a22c1e-98d8-742d-9233-436142c4f7fc	mock	command	a00cb92aa1867497d958e182506afcfc0d155c9a9c5f55bc9610dccbe4dea774	abababababababababababababababababababababababababababababababab	succeeded		2026-11-30 11:02:12.454855+00	2100-01-01 00:00:00+00	2026-11-30 11:02:12.462936+00	cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd	fccb38d4c0135c133517c106b52c6f6f65c83cff834ac9851c47bdd938666cd1	\N		{"input_tokens": 500, "output_tokens": 100}		13	3
3	xr_582302ea1de8c0d037ae77ea6ea35be0579f8570d45b68493b00107f40aa0146	1	1	01a22c1e-990e-704f-b714-a1de578106a5	mock	command	4ebc556e93f40b2288922c6c1cb68e6d91c86b5f754a424effe624beacca697f	abababababababababababababababababababababababababababababababab	unknown		2026-11-30 11:02:12.508587+00	2100-01-01 00:00:00+00	\N			\N		\N		12	4
\.
COPY jobs_executionevidence (id, given_by, given_at, attempt, fencing_token, outcome, content_sha256, content, execution_id) FROM stdin;
\.
COPY jobs_job (id, audit_seq, audit_head, job_id, task_id, risk_tier, priority, state, paused, available_at, attempt, max_attempts, fencing_token, revision, fact_sequence, reflection_count, unresolved_executions, review_required, execution_approval_required, approval_valid_until, submitted_by, requested_by, asked_again_by, deadline_at, expires_if_not_started_at, attempt_timeout_seconds, created_at, state_since, finished_at, agent_id, job_type_id) FROM stdin;
1	1	\\x8c8ba027b36402b147666c714f1f038b82a7fead20fbc9fa50f5b2181fc0f72a	01a22c1e-95d5-7240-90f0-0ecfcab16482	keyed	low	1	queued	f	2026-11-30 11:02:11.668844+00	0	3	0	1	1	0	0	f	f	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.668844+00	2026-11-30 11:02:11.668844+00	\N	1	3
2	1	\\xc11158ef027af7b2971ad1209673e21f2a92a7e20413878dd5890bcbbdebaace	01a22c1e-95f4-72a1-90aa-59ab833148b8	held	high	1	held	f	2026-11-30 11:02:11.7006+00	0	3	0	1	1	0	0	t	t	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.7006+00	2026-11-30 11:02:11.7006+00	\N	1	3
4	2	\\x67d916a02ea1b13834e311583376b745a9e5ffe2e2a2f1fc85970a11a5ae2a0f	01a22c1e-961a-7643-ae7c-519b8306b0da	rejected	high	1	stopped	f	2026-11-30 11:02:11.738038+00	0	3	0	2	2	0	0	t	t	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.738038+00	2026-11-30 11:02:11.955084+00	2026-11-30 11:02:11.955084+00	1	3
3	3	\\x2c166fa6b35c7be8160016aee2fe3b27b59da7399f9e473364779716e9ede911	01a22c1e-9606-7430-a999-55b813f8fe9a	approved	high	1	queued	t	2026-11-30 11:02:11.948015+00	0	3	0	3	3	0	0	t	t	2026-12-01 11:02:11.948015+00	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.718281+00	2026-11-30 11:02:11.948015+00	\N	1	3
5	2	\\xd98ae1b412cde7330840ea9677931d268c4bb3246a30cb96e8d002b9efda91bf	01a22c1e-962f-7477-952a-792b9a8b7968	leased	low	1	active	f	2026-11-30 11:02:11.759231+00	1	3	1	2	2	0	0	f	f	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.759231+00	2026-11-30 11:02:12.013355+00	\N	1	3
6	4	\\xc8bf274c9b8799382477dbccb43de0ceb238d3e7ec51f57f4ce5ef4da9fdb39c	01a22c1e-9644-7692-a954-f6c1b4acca1a	review	low	1	review_required	f	2026-11-30 11:02:11.779805+00	1	3	1	3	4	1	0	t	f	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.779805+00	2026-11-30 11:02:12.087775+00	\N	1	3
10	4	\\xeff256c3db4c4a1e3962c0567f3389450120a3de32c0410ca762afe630600d20	01a22c1e-968d-756f-82bb-72087b88cbaa	permitted	low	1	active	f	2026-11-30 11:02:11.852873+00	1	3	1	2	4	0	0	f	f	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.852873+00	2026-11-30 11:02:12.354707+00	\N	1	3
7	5	\\x4e193be6875f2f02ca31c2cd51546d20c3e2a658307c708eb033f73a80b374a0	01a22c1e-9658-768f-b66d-baecc2ccba48	rework	low	1	needs_rework	f	2026-11-30 11:02:11.799688+00	1	1	1	4	5	1	0	t	f	\N	submitter:ops	user:anna	user:ben	\N	\N	\N	2026-11-30 11:02:11.799688+00	2026-11-30 11:02:12.147324+00	\N	1	3
8	3	\\x45f465195f7ae3fbb5ea8054088d0b131a5ac16e9b61676d04db9382fd1a25f9	01a22c1e-9669-72d3-b055-cc914658c438	failed	low	1	failed	f	2026-11-30 11:02:11.816976+00	1	1	1	3	3	0	0	f	f	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.816976+00	2026-11-30 11:02:12.1852+00	2026-11-30 11:02:12.1852+00	1	3
9	3	\\xd17e5c5957a8c71e06e428eacfd487119d8244da28bd43051e9542d35ca7d4a9	01a22c1e-9679-74ed-920c-2a644e357e1c	escalated	low	1	escalated	f	2026-11-30 11:02:11.833393+00	1	3	1	3	3	0	0	f	f	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.833393+00	2026-11-30 11:02:12.221503+00	\N	1	3
13	8	\\x7313fdbfe7c8e4a6747ecc9941514697b5800058203c9db229307fdc40975204	01a22c1e-96c0-706f-b256-e25de4c9cff9	settled	low	1	completed	f	2026-11-30 11:02:11.904458+00	1	3	1	5	8	0	0	f	f	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.904458+00	2026-11-30 11:02:12.479862+00	2026-11-30 11:02:12.479862+00	1	3
11	5	\\x09e859c49f015947573eeaddbb262571b4481de3a4ffea6b3ba7755e15af0ae0	01a22c1e-969f-7395-995a-5ca0fc047bb0	unknown	low	1	active	f	2026-11-30 11:02:11.871277+00	1	3	1	3	5	0	1	f	f	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.871277+00	2026-11-30 11:02:12.391257+00	\N	1	3
12	6	\\x0a4de765ba310e5ad22cb8d7920a6dae82821d68a9a1219ea38de68819aace44	01a22c1e-96b0-7660-882f-b9da19caf840	in-doubt	low	1	in_doubt	f	2026-11-30 11:02:11.888039+00	1	3	1	4	6	0	1	f	f	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.888039+00	2026-11-30 11:02:12.521301+00	\N	1	3
14	2	\\x17a5e11b3f0afa60c31ad6e13bcda7d432db93c4c57c5784f02e900fb4800b2d	01a22c1e-96d2-773d-8670-5c2a4d089ca7	worker-done	low	1	active	f	2026-11-30 11:02:11.922652+00	1	3	1	2	2	0	0	f	f	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.922652+00	2026-11-30 11:02:12.835289+00	\N	2	2
15	2	\\xc2d2c51bfa1900937fcb27ed027323dfb78e22ce803636d32cc0e4c4bb6908ac	01a22c1e-96e4-77b2-886d-97ef25e32ebc	worker-began	low	1	active	f	2026-11-30 11:02:11.940208+00	1	3	1	2	2	0	0	f	f	\N	submitter:ops	user:anna		\N	\N	\N	2026-11-30 11:02:11.940208+00	2026-11-30 11:02:12.835289+00	\N	2	2
\.
COPY jobs_jobtype (id, name, runtime, uses_model, inputs_schema, max_attempts, max_attempts_ceiling, lease_seconds, attempt_timeout_seconds, backoff_base_seconds, backoff_cap_seconds, approval_valid_seconds, enabled, agent_id, audit_head, audit_seq) FROM stdin;
1	classification	command	f	{}	3	10	900	\N	10	3600	86400	t	2	\\x0000000000000000000000000000000000000000000000000000000000000000	0
2	rewrite	command	f	{}	3	10	900	\N	10	3600	86400	t	2	\\x0000000000000000000000000000000000000000000000000000000000000000	0
4	artifact_production	command	f	{}	3	10	900	\N	10	3600	86400	t	1	\\x0000000000000000000000000000000000000000000000000000000000000000	0
5	skill_extraction	command	f	{}	3	10	900	\N	10	3600	86400	t	1	\\x0000000000000000000000000000000000000000000000000000000000000000	0
6	healthcheck	command	f	{}	3	10	900	\N	10	3600	86400	t	1	\\x0000000000000000000000000000000000000000000000000000000000000000	0
7	implementation	command	f	{}	3	10	900	\N	10	3600	86400	t	3	\\x0000000000000000000000000000000000000000000000000000000000000000	0
3	content_prep	command	t	{}	3	10	900	\N	10	3600	86400	t	1	\\x47361e7bb9ca5239f8667675baf08d5dce59ef1b2caf69e48c02e06c87c50f09	1
\.
COPY jobs_lease (job_id, attempt, fencing_token, worker_id, lease_seconds, granted_at, expires_at, heartbeat_at, progress, session_id) FROM stdin;
5	1	1	worker-1	900	2026-11-30 11:02:12.013355+00	2100-01-01 00:00:00+00	2026-11-30 11:02:12.013355+00	\N	1
10	1	1	01a22c1e-9878-7360-bbc5-5af8bd375015	900	2026-11-30 11:02:12.354707+00	2100-01-01 00:00:00+00	2026-11-30 11:02:12.354707+00	\N	2
11	1	1	01a22c1e-9878-7360-bbc5-5af8bd375015	900	2026-11-30 11:02:12.391257+00	2100-01-01 00:00:00+00	2026-11-30 11:02:12.391257+00	\N	2
15	1	1	openclaw-7	900	2026-11-30 11:02:12.835289+00	2100-01-01 00:00:00+00	2026-11-30 11:02:12.888251+00	\N	3
14	1	1	openclaw-7	900	2026-11-30 11:02:12.835289+00	2100-01-01 00:00:00+00	2026-11-30 11:02:12.888253+00	\N	3
\.
COPY jobs_liveauthorization (id, runtime, granted_by, granted_at, reason, ends_at, revoked_at, revoked_by, revoke_reason, agent_id) FROM stdin;
\.
COPY jobs_permit (id, permit_id, attempt, fencing_token, external_request_id, session_generation, dispatcher_epoch, mode, reservation_id, state, issued_at, deadline_at, ended_at, job_id, session_id) FROM stdin;
1	01a22c1e-98a0-7436-85a0-8af4ea628143	1	1	xr_05bf34944774dbd677759b7186d80e8083014b4add36c4a593097879a3ef20bc	1	9ae6cb0e-ebe8-49f4-8875-506bbca8e2d2	mock	01a22c1e-9892-7549-93a9-56ae5b47e541	issued	2026-11-30 11:02:12.381341+00	2100-01-01 00:00:00+00	\N	10	2
2	01a22c1e-98bc-7094-85f1-ac6ebdc22a22	1	1	xr_ac6912078f87f438f9107457bec3d3443077c81ce00b83d9fa0267034b943bb8	1	9ae6cb0e-ebe8-49f4-8875-506bbca8e2d2	mock	01a22c1e-98b2-707b-b326-0c0e8e9ca247	spent	2026-11-30 11:02:12.410175+00	2100-01-01 00:00:00+00	2026-11-30 11:02:12.417716+00	11	2
3	01a22c1e-98e1-7435-ae06-0b06f9d5e06e	1	1	xr_aac0348a774d3a3407a15355730a1c1f1b3348fc7cfc3d3e7a5adccbe1846276	1	9ae6cb0e-ebe8-49f4-8875-506bbca8e2d2	mock	01a22c1e-98d8-742d-9233-436142c4f7fc	spent	2026-11-30 11:02:12.447309+00	2100-01-01 00:00:00+00	2026-11-30 11:02:12.454855+00	13	2
4	01a22c1e-9917-76c8-a22c-01a582611aac	1	1	xr_582302ea1de8c0d037ae77ea6ea35be0579f8570d45b68493b00107f40aa0146	1	9ae6cb0e-ebe8-49f4-8875-506bbca8e2d2	mock	01a22c1e-990e-704f-b714-a1de578106a5	spent	2026-11-30 11:02:12.500889+00	2100-01-01 00:00:00+00	2026-11-30 11:02:12.508587+00	12	2
\.
COPY jobs_reconciliation (id, verdict, decided_by, decided_at, reason, evidence, execution_id) FROM stdin;
\.
COPY jobs_reflection (id, number, attempt, what_worked, what_failed, pattern_observed, context_type, tool_sequence, success_signal, failure_signal, sensitivity_level, content_sha256, created_at, agent_id, job_id) FROM stdin;
1	1	1	all of it				[]			internal	d2acad87bf168fbf01db7a0f6fedfa92b655565bdd30097b6dc75ef9566ab845	2026-11-30 11:02:12.065209+00	1	6
2	1	1	all of it				[]			internal	d2acad87bf168fbf01db7a0f6fedfa92b655565bdd30097b6dc75ef9566ab845	2026-11-30 11:02:12.124975+00	1	7
\.
COPY jobs_retryextension (id, from_max, to_max, ceiling, granted_by, granted_at, reason, job_id) FROM stdin;
\.
COPY jobs_review (id, attempt, verdict, decided_by, decided_at, reason, job_id) FROM stdin;
1	1	needs_rework	user:ben	2026-11-30 11:02:12.147324+00	decided before the upgrade	7
\.
COPY jobs_skill (id, task_type, context_type, pattern, pattern_sha256, tool_sequence, occurrences, successes, failures, confidence, created_at, updated_at, agent_id) FROM stdin;
\.
COPY jobs_source (id, name, enabled, audit_head, audit_seq) FROM stdin;
1	manual	t	\\x0000000000000000000000000000000000000000000000000000000000000000	0
2	webhook	t	\\x0000000000000000000000000000000000000000000000000000000000000000	0
3	github_action	t	\\x0000000000000000000000000000000000000000000000000000000000000000	0
4	scheduled	t	\\x0000000000000000000000000000000000000000000000000000000000000000	0
5	discord	t	\\x0000000000000000000000000000000000000000000000000000000000000000	0
6	landing_page	t	\\x0000000000000000000000000000000000000000000000000000000000000000	0
7	proof	t	\\x0000000000000000000000000000000000000000000000000000000000000000	0
\.
COPY jobs_task (job_id, source, title, goal, inputs, output_required, rollback_required, labels, submitted_at, content_sha256, envelope, execution_digest) FROM stdin;
1	manual	Task keyed	Outlive the upgrade.	{}	f	f	{}	\N	702c7a075d62911a4864de6f409956ca34f8b30fdd66f624e871de243366a37c	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6ZmFsc2UsImdvYWwiOiJPdXRsaXZlIHRoZSB1cGdyYWRlLiIsImlucHV0cyI6e30sImlzc3VlZF9hdCI6IjIwMjYtMTEtMzBUMTE6MDI6MTEuNjY4ODQ0WiIsImpvYl9pZCI6IjAxYTIyYzFlLTk1ZDUtNzI0MC05MGYwLTBlY2ZjYWIxNjQ4MiIsIm91dHB1dF9yZXF1aXJlZCI6ZmFsc2UsInJldmlld19yZXF1aXJlZCI6ZmFsc2UsInJpc2tfdGllciI6ImxvdyIsInJvbGxiYWNrX3JlcXVpcmVkIjpmYWxzZSwidGFza19pZCI6ImtleWVkIiwidGFza190eXBlIjoiY29udGVudF9wcmVwIiwidGl0bGUiOiJUYXNrIGtleWVkIn0=", "signatures": [{"sig": "usDDSFz79i+W4d4dMvfFEL/xkRwwtxDDQioDbolEdJiDplWV/cZ7+EcXVldsVhPNd3lKQFZZ+mpQ/NYrLDaKAQ==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	0175613a96509b33b58d8ac96365f0245910fd686a6fd1371e7e8ac63bd8b7a3
2	manual	Task held	Outlive the upgrade.	{}	f	f	{}	\N	05eeb4e7b8771c1561afe4d40d7fdd3ed8fd7e302c582a7367b9467a22915a63	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6dHJ1ZSwiZ29hbCI6Ik91dGxpdmUgdGhlIHVwZ3JhZGUuIiwiaW5wdXRzIjp7fSwiaXNzdWVkX2F0IjoiMjAyNi0xMS0zMFQxMTowMjoxMS43MDA2MDBaIiwiam9iX2lkIjoiMDFhMjJjMWUtOTVmNC03MmExLTkwYWEtNTlhYjgzMzE0OGI4Iiwib3V0cHV0X3JlcXVpcmVkIjpmYWxzZSwicmV2aWV3X3JlcXVpcmVkIjp0cnVlLCJyaXNrX3RpZXIiOiJoaWdoIiwicm9sbGJhY2tfcmVxdWlyZWQiOmZhbHNlLCJ0YXNrX2lkIjoiaGVsZCIsInRhc2tfdHlwZSI6ImNvbnRlbnRfcHJlcCIsInRpdGxlIjoiVGFzayBoZWxkIn0=", "signatures": [{"sig": "rBca+xFRQfv9BR3ISNIsn7Qte56Iub4RyqAN/37oA02acvbfB5yg5i7S1bDplD0kI/9R6oYChCsmqgwNEv2ICQ==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	4aacd9756c63a814cb1fe7d55ed12352bdb97321445c86028df7e7d08e92efa9
3	manual	Task approved	Outlive the upgrade.	{}	f	f	{}	\N	0eaab7d8ddd596cc42fb482f627bb1a1914891993459d1f4cb6995517b756cef	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6dHJ1ZSwiZ29hbCI6Ik91dGxpdmUgdGhlIHVwZ3JhZGUuIiwiaW5wdXRzIjp7fSwiaXNzdWVkX2F0IjoiMjAyNi0xMS0zMFQxMTowMjoxMS43MTgyODFaIiwiam9iX2lkIjoiMDFhMjJjMWUtOTYwNi03NDMwLWE5OTktNTViODEzZjhmZTlhIiwib3V0cHV0X3JlcXVpcmVkIjpmYWxzZSwicmV2aWV3X3JlcXVpcmVkIjp0cnVlLCJyaXNrX3RpZXIiOiJoaWdoIiwicm9sbGJhY2tfcmVxdWlyZWQiOmZhbHNlLCJ0YXNrX2lkIjoiYXBwcm92ZWQiLCJ0YXNrX3R5cGUiOiJjb250ZW50X3ByZXAiLCJ0aXRsZSI6IlRhc2sgYXBwcm92ZWQifQ==", "signatures": [{"sig": "tCNVRZKEFD/n+P6Om5K8Xy75ANTTT18gk1Fop5aNRd4Te7DzKNkU57om5zGso+MK1pbePRfUBdVYObiWfhfNDg==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	b9feaa8adb1090eb1e27ebb0a168cec479ea2965e240b28c41b18715884b6e00
4	manual	Task rejected	Outlive the upgrade.	{}	f	f	{}	\N	71dbe86d51779014a9c2fa270506dfc624257c17c2fa7cc9de9fa1e3b8ed06e8	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6dHJ1ZSwiZ29hbCI6Ik91dGxpdmUgdGhlIHVwZ3JhZGUuIiwiaW5wdXRzIjp7fSwiaXNzdWVkX2F0IjoiMjAyNi0xMS0zMFQxMTowMjoxMS43MzgwMzhaIiwiam9iX2lkIjoiMDFhMjJjMWUtOTYxYS03NjQzLWFlN2MtNTE5YjgzMDZiMGRhIiwib3V0cHV0X3JlcXVpcmVkIjpmYWxzZSwicmV2aWV3X3JlcXVpcmVkIjp0cnVlLCJyaXNrX3RpZXIiOiJoaWdoIiwicm9sbGJhY2tfcmVxdWlyZWQiOmZhbHNlLCJ0YXNrX2lkIjoicmVqZWN0ZWQiLCJ0YXNrX3R5cGUiOiJjb250ZW50X3ByZXAiLCJ0aXRsZSI6IlRhc2sgcmVqZWN0ZWQifQ==", "signatures": [{"sig": "Ikv6uz1nbvH8PyF0ju2BuSUsMdNtBoJb6Tvt+5v4tIQyBqVPmndGxFJ1JjuQKkIRznXac5WB3gJ1njLICYJOBQ==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	6e43ecd800684a66dfb2aa657600744aaadeefba7078ae8c1d8143e12c3531f0
5	manual	Task leased	Outlive the upgrade.	{}	f	f	{}	\N	2aae9360d84deecdc140ece88d9971266760242ff36ecafe5b020041de3af513	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6ZmFsc2UsImdvYWwiOiJPdXRsaXZlIHRoZSB1cGdyYWRlLiIsImlucHV0cyI6e30sImlzc3VlZF9hdCI6IjIwMjYtMTEtMzBUMTE6MDI6MTEuNzU5MjMxWiIsImpvYl9pZCI6IjAxYTIyYzFlLTk2MmYtNzQ3Ny05NTJhLTc5MmI5YThiNzk2OCIsIm91dHB1dF9yZXF1aXJlZCI6ZmFsc2UsInJldmlld19yZXF1aXJlZCI6ZmFsc2UsInJpc2tfdGllciI6ImxvdyIsInJvbGxiYWNrX3JlcXVpcmVkIjpmYWxzZSwidGFza19pZCI6ImxlYXNlZCIsInRhc2tfdHlwZSI6ImNvbnRlbnRfcHJlcCIsInRpdGxlIjoiVGFzayBsZWFzZWQifQ==", "signatures": [{"sig": "EfHdPmnMAqH+BCOAx/g57To3C3ZWwb8K9LcAF+dnhfd6Ln9xdL5vsLlON3Ddce0WID4ngkkOiQjYb9dOW/mICw==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	4ae6948d7b7812333cf546d8c15075b78d6cc627614ee314eefb48f2a08b99c8
6	manual	Task review	Outlive the upgrade.	{}	f	f	{}	\N	a59d4d46e477982a463c666188392aa6abdfc7ce53a5abdfab25c1f2c0882478	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6ZmFsc2UsImdvYWwiOiJPdXRsaXZlIHRoZSB1cGdyYWRlLiIsImlucHV0cyI6e30sImlzc3VlZF9hdCI6IjIwMjYtMTEtMzBUMTE6MDI6MTEuNzc5ODA1WiIsImpvYl9pZCI6IjAxYTIyYzFlLTk2NDQtNzY5Mi1hOTU0LWY2YzFiNGFjY2ExYSIsIm91dHB1dF9yZXF1aXJlZCI6ZmFsc2UsInJldmlld19yZXF1aXJlZCI6dHJ1ZSwicmlza190aWVyIjoibG93Iiwicm9sbGJhY2tfcmVxdWlyZWQiOmZhbHNlLCJ0YXNrX2lkIjoicmV2aWV3IiwidGFza190eXBlIjoiY29udGVudF9wcmVwIiwidGl0bGUiOiJUYXNrIHJldmlldyJ9", "signatures": [{"sig": "TPwzJZdWttH16CAKODOpTLBujZo8KrK/9tVJFQWDKXqpCAUH6atGxSg2Vz4U5cUXVVyFGm3uZK+uCFdJEYxMAw==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	447396e96c8a98ef28a2bdfd84c58aa76fc4c2629bcd6081d0ff3fc57b96fc7b
7	manual	Task rework	Outlive the upgrade.	{}	f	f	{}	\N	f494344101e1982f5ef3a19b3fc628578e92061c8d918e68d84a248c9dd88505	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6ZmFsc2UsImdvYWwiOiJPdXRsaXZlIHRoZSB1cGdyYWRlLiIsImlucHV0cyI6e30sImlzc3VlZF9hdCI6IjIwMjYtMTEtMzBUMTE6MDI6MTEuNzk5Njg4WiIsImpvYl9pZCI6IjAxYTIyYzFlLTk2NTgtNzY4Zi1iNjZkLWJhZWNjMmNjYmE0OCIsIm91dHB1dF9yZXF1aXJlZCI6ZmFsc2UsInJldmlld19yZXF1aXJlZCI6dHJ1ZSwicmlza190aWVyIjoibG93Iiwicm9sbGJhY2tfcmVxdWlyZWQiOmZhbHNlLCJ0YXNrX2lkIjoicmV3b3JrIiwidGFza190eXBlIjoiY29udGVudF9wcmVwIiwidGl0bGUiOiJUYXNrIHJld29yayJ9", "signatures": [{"sig": "fzZy+dTG54jjNK8PBntVP5ioNtc/4wl9xLc5vsu6qrIgW2aYG+xs2le7QDzqUpyrp02/5p7UzH0/oNKF0bFEBQ==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	81d8fe14cc4b5fac2859fcd1022c06bf6a5bc74475143981074644a4314836c1
8	manual	Task failed	Outlive the upgrade.	{}	f	f	{}	\N	18b88da1134b0ecbfdc2748875b06fa2439599f6496eeda7c7dcafac73fb8d67	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6ZmFsc2UsImdvYWwiOiJPdXRsaXZlIHRoZSB1cGdyYWRlLiIsImlucHV0cyI6e30sImlzc3VlZF9hdCI6IjIwMjYtMTEtMzBUMTE6MDI6MTEuODE2OTc2WiIsImpvYl9pZCI6IjAxYTIyYzFlLTk2NjktNzJkMy1iMDU1LWNjOTE0NjU4YzQzOCIsIm91dHB1dF9yZXF1aXJlZCI6ZmFsc2UsInJldmlld19yZXF1aXJlZCI6ZmFsc2UsInJpc2tfdGllciI6ImxvdyIsInJvbGxiYWNrX3JlcXVpcmVkIjpmYWxzZSwidGFza19pZCI6ImZhaWxlZCIsInRhc2tfdHlwZSI6ImNvbnRlbnRfcHJlcCIsInRpdGxlIjoiVGFzayBmYWlsZWQifQ==", "signatures": [{"sig": "zIMh1sCzhRhYhYbsrGA+whzl/BOjPbBSN3RuYFHWzhhM5bZC0mgPCh+n/51lEhro/3wslbkJJKRzKXyCZ1tNAA==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	50ed3d2e32858cf50e78ae5ec651b65ed2e08d3a9075030d855930f5e71d9931
9	manual	Task escalated	Outlive the upgrade.	{}	f	f	{}	\N	21e3ec037c65bb78cb271b6c035bba1cfc2f99d9aaed9c8c5ff8ffb9540ac0d0	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6ZmFsc2UsImdvYWwiOiJPdXRsaXZlIHRoZSB1cGdyYWRlLiIsImlucHV0cyI6e30sImlzc3VlZF9hdCI6IjIwMjYtMTEtMzBUMTE6MDI6MTEuODMzMzkzWiIsImpvYl9pZCI6IjAxYTIyYzFlLTk2NzktNzRlZC05MjBjLTJhNjQ0ZTM1N2UxYyIsIm91dHB1dF9yZXF1aXJlZCI6ZmFsc2UsInJldmlld19yZXF1aXJlZCI6ZmFsc2UsInJpc2tfdGllciI6ImxvdyIsInJvbGxiYWNrX3JlcXVpcmVkIjpmYWxzZSwidGFza19pZCI6ImVzY2FsYXRlZCIsInRhc2tfdHlwZSI6ImNvbnRlbnRfcHJlcCIsInRpdGxlIjoiVGFzayBlc2NhbGF0ZWQifQ==", "signatures": [{"sig": "gzCm543y4AGv8E3V4SqHg5Djh3Z+MA7UvqsVPjG8C2Bwl4Hffo6Hd7qtdM6RtgeCO9wlwEgnkzrc+iF1PsiIAA==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	93b3f66d997bfafd931588a84efb08a00c94df9050ad8aff4a0b584f16d82982
10	manual	Task permitted	Outlive the upgrade.	{}	f	f	{}	\N	5139404616232e471db8e3280ed5132e4618de730722fadc1bae9db6aba1701d	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6ZmFsc2UsImdvYWwiOiJPdXRsaXZlIHRoZSB1cGdyYWRlLiIsImlucHV0cyI6e30sImlzc3VlZF9hdCI6IjIwMjYtMTEtMzBUMTE6MDI6MTEuODUyODczWiIsImpvYl9pZCI6IjAxYTIyYzFlLTk2OGQtNzU2Zi04MmJiLTcyMDg3Yjg4Y2JhYSIsIm91dHB1dF9yZXF1aXJlZCI6ZmFsc2UsInJldmlld19yZXF1aXJlZCI6ZmFsc2UsInJpc2tfdGllciI6ImxvdyIsInJvbGxiYWNrX3JlcXVpcmVkIjpmYWxzZSwidGFza19pZCI6InBlcm1pdHRlZCIsInRhc2tfdHlwZSI6ImNvbnRlbnRfcHJlcCIsInRpdGxlIjoiVGFzayBwZXJtaXR0ZWQifQ==", "signatures": [{"sig": "YgIGnBLdIh3PhPSEyRfqtpJzmo/Ladf1wJdJEHBmRFPq9W5DqShqayL/DGwbEKWAQkjSF6FelLAte1DqSN45BA==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	661da92783ae1830a54c9f5d28a9d3c4b84ca6f8dd904894d7ac918f9420be4a
11	manual	Task unknown	Outlive the upgrade.	{}	f	f	{}	\N	b12e11feef04cdc2af3e8935913a0baf9fccb757b639275f5d9793ebf7bf7828	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6ZmFsc2UsImdvYWwiOiJPdXRsaXZlIHRoZSB1cGdyYWRlLiIsImlucHV0cyI6e30sImlzc3VlZF9hdCI6IjIwMjYtMTEtMzBUMTE6MDI6MTEuODcxMjc3WiIsImpvYl9pZCI6IjAxYTIyYzFlLTk2OWYtNzM5NS05OTVhLTVjYTBmYzA0N2JiMCIsIm91dHB1dF9yZXF1aXJlZCI6ZmFsc2UsInJldmlld19yZXF1aXJlZCI6ZmFsc2UsInJpc2tfdGllciI6ImxvdyIsInJvbGxiYWNrX3JlcXVpcmVkIjpmYWxzZSwidGFza19pZCI6InVua25vd24iLCJ0YXNrX3R5cGUiOiJjb250ZW50X3ByZXAiLCJ0aXRsZSI6IlRhc2sgdW5rbm93biJ9", "signatures": [{"sig": "hxbiGv80tKnJSEu/bVZ8DhIncCLmwMzWX7n3GpVPSbyO4a8zbb0rXDWYnTZuyhK4eQ579xvshIRBt8dSmgIDCA==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	3f11dfad11c5aebd39f857613bac13245bae8891067a2dcfe537b91c03ff8c6c
12	manual	Task in-doubt	Outlive the upgrade.	{}	f	f	{}	\N	a9309ebf54bc80a7e03f19a7ff51b03df3976cbc42680fb8e9fa27a272ecef5b	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6ZmFsc2UsImdvYWwiOiJPdXRsaXZlIHRoZSB1cGdyYWRlLiIsImlucHV0cyI6e30sImlzc3VlZF9hdCI6IjIwMjYtMTEtMzBUMTE6MDI6MTEuODg4MDM5WiIsImpvYl9pZCI6IjAxYTIyYzFlLTk2YjAtNzY2MC04ODJmLWI5ZGExOWNhZjg0MCIsIm91dHB1dF9yZXF1aXJlZCI6ZmFsc2UsInJldmlld19yZXF1aXJlZCI6ZmFsc2UsInJpc2tfdGllciI6ImxvdyIsInJvbGxiYWNrX3JlcXVpcmVkIjpmYWxzZSwidGFza19pZCI6ImluLWRvdWJ0IiwidGFza190eXBlIjoiY29udGVudF9wcmVwIiwidGl0bGUiOiJUYXNrIGluLWRvdWJ0In0=", "signatures": [{"sig": "xJOvJRUu5swM5rB5TLfq+t1Sadxgjr7qD5psDCVL4Sq1UhlJ2HNDDZB7qtWAk5tMxJFDIIUCbxqvizUUMoQWAw==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	4ebc556e93f40b2288922c6c1cb68e6d91c86b5f754a424effe624beacca697f
13	manual	Task settled	Outlive the upgrade.	{}	f	f	{}	\N	ee3ea8deef5d5bea424b56d426b4626941f0a420e4807676df222f57778aed63	{"payload": "eyJhZ2VudCI6Imhlcm1lcyIsImV4ZWN1dGlvbl9hcHByb3ZhbF9yZXF1aXJlZCI6ZmFsc2UsImdvYWwiOiJPdXRsaXZlIHRoZSB1cGdyYWRlLiIsImlucHV0cyI6e30sImlzc3VlZF9hdCI6IjIwMjYtMTEtMzBUMTE6MDI6MTEuOTA0NDU4WiIsImpvYl9pZCI6IjAxYTIyYzFlLTk2YzAtNzA2Zi1iMjU2LWUyNWRlNGM5Y2ZmOSIsIm91dHB1dF9yZXF1aXJlZCI6ZmFsc2UsInJldmlld19yZXF1aXJlZCI6ZmFsc2UsInJpc2tfdGllciI6ImxvdyIsInJvbGxiYWNrX3JlcXVpcmVkIjpmYWxzZSwidGFza19pZCI6InNldHRsZWQiLCJ0YXNrX3R5cGUiOiJjb250ZW50X3ByZXAiLCJ0aXRsZSI6IlRhc2sgc2V0dGxlZCJ9", "signatures": [{"sig": "RSGYx4ojVSolX/hKkjM0DDvR0CjDfSlaL8dFA6w+OASoqgKCS9aJlOruXiUrBZ8ufbocn6Cp7LmuBbDj8mC5AA==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	a00cb92aa1867497d958e182506afcfc0d155c9a9c5f55bc9610dccbe4dea774
14	manual	Task worker-done	Outlive the upgrade.	{}	f	f	{}	\N	e8c15f5d87c8455d052d845a904e48811a11cb602290f760bad0016267b37a75	{"payload": "eyJhZ2VudCI6Im9wZW5jbGF3IiwiZXhlY3V0aW9uX2FwcHJvdmFsX3JlcXVpcmVkIjpmYWxzZSwiZ29hbCI6Ik91dGxpdmUgdGhlIHVwZ3JhZGUuIiwiaW5wdXRzIjp7fSwiaXNzdWVkX2F0IjoiMjAyNi0xMS0zMFQxMTowMjoxMS45MjI2NTJaIiwiam9iX2lkIjoiMDFhMjJjMWUtOTZkMi03NzNkLTg2NzAtNWMyYTRkMDg5Y2E3Iiwib3V0cHV0X3JlcXVpcmVkIjpmYWxzZSwicmV2aWV3X3JlcXVpcmVkIjpmYWxzZSwicmlza190aWVyIjoibG93Iiwicm9sbGJhY2tfcmVxdWlyZWQiOmZhbHNlLCJ0YXNrX2lkIjoid29ya2VyLWRvbmUiLCJ0YXNrX3R5cGUiOiJyZXdyaXRlIiwidGl0bGUiOiJUYXNrIHdvcmtlci1kb25lIn0=", "signatures": [{"sig": "Bi7sMJZV2mgpWZhT7Ns7f1lsA3AiwzYIXqiRiwhhWyVoBZUQH8m8t3aw5zDA6iYjZW2XFTMmGhqYYKn0vChEBw==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	34955b46d18ff579cfde2ca502ac3892f3004528b86fc5a203185272395dd377
15	manual	Task worker-began	Outlive the upgrade.	{}	f	f	{}	\N	171782b5a0c161a48e5b960e437ec9ae8d4b39b368326676118221496aa28943	{"payload": "eyJhZ2VudCI6Im9wZW5jbGF3IiwiZXhlY3V0aW9uX2FwcHJvdmFsX3JlcXVpcmVkIjpmYWxzZSwiZ29hbCI6Ik91dGxpdmUgdGhlIHVwZ3JhZGUuIiwiaW5wdXRzIjp7fSwiaXNzdWVkX2F0IjoiMjAyNi0xMS0zMFQxMTowMjoxMS45NDAyMDhaIiwiam9iX2lkIjoiMDFhMjJjMWUtOTZlNC03N2IyLTg4NmQtOTdlZjI1ZTMyZWJjIiwib3V0cHV0X3JlcXVpcmVkIjpmYWxzZSwicmV2aWV3X3JlcXVpcmVkIjpmYWxzZSwicmlza190aWVyIjoibG93Iiwicm9sbGJhY2tfcmVxdWlyZWQiOmZhbHNlLCJ0YXNrX2lkIjoid29ya2VyLWJlZ2FuIiwidGFza190eXBlIjoicmV3cml0ZSIsInRpdGxlIjoiVGFzayB3b3JrZXItYmVnYW4ifQ==", "signatures": [{"sig": "NP5VYRV83phoiaP1XnUZ8o3nLJy52xbdK5xvBcNcRrPDmO9hbpmTbbbzoGwJ+pY50TJTiFAWErySrR9l3n2pCg==", "keyid": "27c15cd48eb864c040101726870fff88dec0261d692c94981858fa9a59aec17f"}], "payloadType": "application/vnd.fencepost.execution-envelope+json"}	ddcfc1b79262b999e874e60c0be4531ea7c71942f62f72c5bac21cb01d782783
\.
COPY jobs_upload (id, upload_id, artifact_id, attempt, fencing_token, name, media_type, size_bytes, sha256, object_key, state, granted_at, expires_at, stored_at, fact_id, job_id) FROM stdin;
\.
SELECT pg_catalog.setval('agents_activation_id_seq', 2, true);
SELECT pg_catalog.setval('agents_admissionchange_id_seq', 1, true);
SELECT pg_catalog.setval('agents_agent_id_seq', 3, true);
SELECT pg_catalog.setval('agents_cellapproval_id_seq', 1, false);
SELECT pg_catalog.setval('agents_credential_id_seq', 4, true);
SELECT pg_catalog.setval('agents_fleet_id_seq', 1, false);
SELECT pg_catalog.setval('agents_maintenanceinhibit_id_seq', 1, true);
SELECT pg_catalog.setval('agents_runtimeswitch_id_seq', 1, false);
SELECT pg_catalog.setval('agents_session_id_seq', 3, true);
SELECT pg_catalog.setval('agents_submitter_id_seq', 1, true);
SELECT pg_catalog.setval('auth_group_id_seq', 4, true);
SELECT pg_catalog.setval('auth_group_permissions_id_seq', 254, true);
SELECT pg_catalog.setval('auth_permission_id_seq', 280, true);
SELECT pg_catalog.setval('auth_user_groups_id_seq', 2, true);
SELECT pg_catalog.setval('auth_user_id_seq', 2, true);
SELECT pg_catalog.setval('auth_user_user_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('axes_accessattempt_id_seq', 1, false);
SELECT pg_catalog.setval('axes_accessfailurelog_id_seq', 1, false);
SELECT pg_catalog.setval('axes_accesslog_id_seq', 1, false);
SELECT pg_catalog.setval('django_admin_log_id_seq', 1, false);
SELECT pg_catalog.setval('django_content_type_id_seq', 65, true);
SELECT pg_catalog.setval('django_migrations_id_seq', 66, true);
SELECT pg_catalog.setval('governance_auditcheckpoint_id_seq', 2, true);
SELECT pg_catalog.setval('governance_auditcheckpointleaf_id_seq', 33, true);
SELECT pg_catalog.setval('governance_auditevent_id_seq', 73, true);
SELECT pg_catalog.setval('governance_budget_id_seq', 2, true);
SELECT pg_catalog.setval('governance_budgetwindow_id_seq', 2, true);
SELECT pg_catalog.setval('governance_bulkitem_id_seq', 1, true);
SELECT pg_catalog.setval('governance_bulkrun_id_seq', 1, true);
SELECT pg_catalog.setval('governance_eventminute_id_seq', 1, false);
SELECT pg_catalog.setval('governance_eventminutecursor_id_seq', 1, false);
SELECT pg_catalog.setval('governance_fact_id_seq', 51, true);
SELECT pg_catalog.setval('governance_factsink_id_seq', 1, false);
SELECT pg_catalog.setval('governance_factstream_id_seq', 1, false);
SELECT pg_catalog.setval('governance_idempotencyrecord_id_seq', 5, true);
SELECT pg_catalog.setval('governance_languagemodel_id_seq', 1, true);
SELECT pg_catalog.setval('governance_price_id_seq', 1, true);
SELECT pg_catalog.setval('governance_pricetier_id_seq', 1, false);
SELECT pg_catalog.setval('governance_prunedfact_id_seq', 1, false);
SELECT pg_catalog.setval('governance_pulse_id_seq', 1, false);
SELECT pg_catalog.setval('governance_reservationhold_id_seq', 8, true);
SELECT pg_catalog.setval('governance_routepolicy_id_seq', 1, true);
SELECT pg_catalog.setval('governance_routepolicymodel_id_seq', 1, true);
SELECT pg_catalog.setval('governance_savedview_id_seq', 1, true);
SELECT pg_catalog.setval('governance_streamhold_id_seq', 1, false);
SELECT pg_catalog.setval('jobs_approval_id_seq', 2, true);
SELECT pg_catalog.setval('jobs_attempt_id_seq', 11, true);
SELECT pg_catalog.setval('jobs_escalation_id_seq', 1, true);
SELECT pg_catalog.setval('jobs_execution_id_seq', 3, true);
SELECT pg_catalog.setval('jobs_executionevidence_id_seq', 1, false);
SELECT pg_catalog.setval('jobs_job_id_seq', 15, true);
SELECT pg_catalog.setval('jobs_jobtype_id_seq', 7, true);
SELECT pg_catalog.setval('jobs_liveauthorization_id_seq', 1, false);
SELECT pg_catalog.setval('jobs_permit_id_seq', 4, true);
SELECT pg_catalog.setval('jobs_reconciliation_id_seq', 1, false);
SELECT pg_catalog.setval('jobs_reflection_id_seq', 2, true);
SELECT pg_catalog.setval('jobs_retryextension_id_seq', 1, false);
SELECT pg_catalog.setval('jobs_review_id_seq', 1, true);
SELECT pg_catalog.setval('jobs_skill_id_seq', 1, false);
SELECT pg_catalog.setval('jobs_source_id_seq', 7, true);
SELECT pg_catalog.setval('jobs_upload_id_seq', 1, false);
ALTER TABLE agents_activation ADD CONSTRAINT activation_operation_once UNIQUE (agent_id, operation_id);
ALTER TABLE agents_admissionchange ADD CONSTRAINT admission_barrier_once UNIQUE (agent_id, barrier_id);
ALTER TABLE agents_admissionchange ADD CONSTRAINT admission_generation_once UNIQUE (agent_id, generation);
ALTER TABLE agents_activation ADD CONSTRAINT agents_activation_pkey PRIMARY KEY (id);
ALTER TABLE agents_admissionchange ADD CONSTRAINT agents_admissionchange_pkey PRIMARY KEY (id);
ALTER TABLE agents_agent ADD CONSTRAINT agents_agent_name_key UNIQUE (name);
ALTER TABLE agents_agent ADD CONSTRAINT agents_agent_pkey PRIMARY KEY (id);
ALTER TABLE agents_cellapproval ADD CONSTRAINT agents_cellapproval_pkey PRIMARY KEY (id);
ALTER TABLE agents_credential ADD CONSTRAINT agents_credential_pkey PRIMARY KEY (id);
ALTER TABLE agents_credential ADD CONSTRAINT agents_credential_prefix_key UNIQUE (prefix);
ALTER TABLE agents_fleet ADD CONSTRAINT agents_fleet_pkey PRIMARY KEY (id);
ALTER TABLE agents_maintenanceinhibit ADD CONSTRAINT agents_maintenanceinhibit_pkey PRIMARY KEY (id);
ALTER TABLE agents_presence ADD CONSTRAINT agents_presence_pkey PRIMARY KEY (session_id);
ALTER TABLE agents_runtimeswitch ADD CONSTRAINT agents_runtimeswitch_pkey PRIMARY KEY (id);
ALTER TABLE agents_session ADD CONSTRAINT agents_session_pkey PRIMARY KEY (id);
ALTER TABLE agents_session ADD CONSTRAINT agents_session_session_id_key UNIQUE (session_id);
ALTER TABLE agents_submitter ADD CONSTRAINT agents_submitter_name_key UNIQUE (name);
ALTER TABLE agents_submitter ADD CONSTRAINT agents_submitter_pkey PRIMARY KEY (id);
ALTER TABLE jobs_attempt ADD CONSTRAINT attempt_number_once UNIQUE (job_id, number);
ALTER TABLE jobs_attempt ADD CONSTRAINT attempt_token_once UNIQUE (job_id, fencing_token);
ALTER TABLE governance_auditcheckpointleaf ADD CONSTRAINT audit_checkpoint_leaf_once UNIQUE (checkpoint_id, subject);
ALTER TABLE governance_auditevent ADD CONSTRAINT audit_event_seq_once UNIQUE (subject, seq);
ALTER TABLE auth_group ADD CONSTRAINT auth_group_name_key UNIQUE (name);
ALTER TABLE auth_group_permissions ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);
ALTER TABLE auth_group_permissions ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);
ALTER TABLE auth_group ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);
ALTER TABLE auth_permission ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);
ALTER TABLE auth_permission ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);
ALTER TABLE auth_user_groups ADD CONSTRAINT auth_user_groups_pkey PRIMARY KEY (id);
ALTER TABLE auth_user_groups ADD CONSTRAINT auth_user_groups_user_id_group_id_94350c0c_uniq UNIQUE (user_id, group_id);
ALTER TABLE auth_user ADD CONSTRAINT auth_user_pkey PRIMARY KEY (id);
ALTER TABLE auth_user_user_permissions ADD CONSTRAINT auth_user_user_permissions_pkey PRIMARY KEY (id);
ALTER TABLE auth_user_user_permissions ADD CONSTRAINT auth_user_user_permissions_user_id_permission_id_14a6b632_uniq UNIQUE (user_id, permission_id);
ALTER TABLE auth_user ADD CONSTRAINT auth_user_username_key UNIQUE (username);
ALTER TABLE axes_accessattempt ADD CONSTRAINT axes_accessattempt_pkey PRIMARY KEY (id);
ALTER TABLE axes_accessattempt ADD CONSTRAINT axes_accessattempt_username_ip_address_user_agent_8ea22282_uniq UNIQUE (username, ip_address, user_agent);
ALTER TABLE axes_accessattemptexpiration ADD CONSTRAINT axes_accessattemptexpiration_pkey PRIMARY KEY (access_attempt_id);
ALTER TABLE axes_accessfailurelog ADD CONSTRAINT axes_accessfailurelog_pkey PRIMARY KEY (id);
ALTER TABLE axes_accesslog ADD CONSTRAINT axes_accesslog_pkey PRIMARY KEY (id);
ALTER TABLE governance_budget ADD CONSTRAINT budget_once UNIQUE (scope, key, "window");
ALTER TABLE governance_budgetwindow ADD CONSTRAINT budget_window_once UNIQUE (budget_id, counted_for, kind, starts_at);
ALTER TABLE governance_bulkitem ADD CONSTRAINT bulk_item_key_once UNIQUE (run_id, key);
ALTER TABLE governance_bulkitem ADD CONSTRAINT bulk_item_position_once UNIQUE (run_id, "position");
ALTER TABLE django_admin_log ADD CONSTRAINT django_admin_log_pkey PRIMARY KEY (id);
ALTER TABLE django_content_type ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);
ALTER TABLE django_content_type ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);
ALTER TABLE django_migrations ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);
ALTER TABLE django_session ADD CONSTRAINT django_session_pkey PRIMARY KEY (session_key);
ALTER TABLE governance_eventminute ADD CONSTRAINT event_minute_once UNIQUE (minute, action);
ALTER TABLE jobs_executionevidence ADD CONSTRAINT execution_evidence_once UNIQUE (execution_id, content_sha256);
ALTER TABLE jobs_execution ADD CONSTRAINT execution_one_per_attempt UNIQUE (job_id, attempt);
ALTER TABLE jobs_retryextension ADD CONSTRAINT extension_step_once UNIQUE (job_id, to_max);
ALTER TABLE governance_fact ADD CONSTRAINT fact_id_once UNIQUE (principal, fact_id);
ALTER TABLE governance_fact ADD CONSTRAINT fact_sequence_once UNIQUE (stream, sequence);
ALTER TABLE governance_auditcheckpoint ADD CONSTRAINT governance_auditcheckpoint_number_key UNIQUE (number);
ALTER TABLE governance_auditcheckpoint ADD CONSTRAINT governance_auditcheckpoint_pkey PRIMARY KEY (id);
ALTER TABLE governance_auditcheckpointleaf ADD CONSTRAINT governance_auditcheckpointleaf_pkey PRIMARY KEY (id);
ALTER TABLE governance_auditevent ADD CONSTRAINT governance_auditevent_pkey PRIMARY KEY (id);
ALTER TABLE governance_budget ADD CONSTRAINT governance_budget_pkey PRIMARY KEY (id);
ALTER TABLE governance_budgetwindow ADD CONSTRAINT governance_budgetwindow_pkey PRIMARY KEY (id);
ALTER TABLE governance_bulkitem ADD CONSTRAINT governance_bulkitem_pkey PRIMARY KEY (id);
ALTER TABLE governance_bulkrun ADD CONSTRAINT governance_bulkrun_pkey PRIMARY KEY (id);
ALTER TABLE governance_bulkrun ADD CONSTRAINT governance_bulkrun_run_id_key UNIQUE (run_id);
ALTER TABLE governance_eventminute ADD CONSTRAINT governance_eventminute_pkey PRIMARY KEY (id);
ALTER TABLE governance_eventminutecursor ADD CONSTRAINT governance_eventminutecursor_pkey PRIMARY KEY (id);
ALTER TABLE governance_fact ADD CONSTRAINT governance_fact_pkey PRIMARY KEY (id);
ALTER TABLE governance_fact ADD CONSTRAINT governance_fact_receipt_id_key UNIQUE (receipt_id);
ALTER TABLE governance_factsink ADD CONSTRAINT governance_factsink_name_key UNIQUE (name);
ALTER TABLE governance_factsink ADD CONSTRAINT governance_factsink_pkey PRIMARY KEY (id);
ALTER TABLE governance_factstream ADD CONSTRAINT governance_factstream_name_key UNIQUE (name);
ALTER TABLE governance_factstream ADD CONSTRAINT governance_factstream_pkey PRIMARY KEY (id);
ALTER TABLE governance_idempotencyrecord ADD CONSTRAINT governance_idempotencyrecord_pkey PRIMARY KEY (id);
ALTER TABLE governance_languagemodel ADD CONSTRAINT governance_languagemodel_pkey PRIMARY KEY (id);
ALTER TABLE governance_price ADD CONSTRAINT governance_price_pkey PRIMARY KEY (id);
ALTER TABLE governance_pricetier ADD CONSTRAINT governance_pricetier_pkey PRIMARY KEY (id);
ALTER TABLE governance_prunedfact ADD CONSTRAINT governance_prunedfact_pkey PRIMARY KEY (id);
ALTER TABLE governance_pulse ADD CONSTRAINT governance_pulse_name_key UNIQUE (name);
ALTER TABLE governance_pulse ADD CONSTRAINT governance_pulse_pkey PRIMARY KEY (id);
ALTER TABLE governance_reservation ADD CONSTRAINT governance_reservation_decision_id_key UNIQUE (decision_id);
ALTER TABLE governance_reservation ADD CONSTRAINT governance_reservation_pkey PRIMARY KEY (reservation_id);
ALTER TABLE governance_reservation ADD CONSTRAINT governance_reservation_route_request_id_key UNIQUE (route_request_id);
ALTER TABLE governance_reservationhold ADD CONSTRAINT governance_reservationhold_pkey PRIMARY KEY (id);
ALTER TABLE governance_resolution ADD CONSTRAINT governance_resolution_pkey PRIMARY KEY (reservation_id);
ALTER TABLE governance_routedecision ADD CONSTRAINT governance_routedecision_pkey PRIMARY KEY (decision_id);
ALTER TABLE governance_routedecision ADD CONSTRAINT governance_routedecision_route_request_id_key UNIQUE (route_request_id);
ALTER TABLE governance_routepolicy ADD CONSTRAINT governance_routepolicy_pkey PRIMARY KEY (id);
ALTER TABLE governance_routepolicymodel ADD CONSTRAINT governance_routepolicymodel_pkey PRIMARY KEY (id);
ALTER TABLE governance_savedview ADD CONSTRAINT governance_savedview_pkey PRIMARY KEY (id);
ALTER TABLE governance_streamhold ADD CONSTRAINT governance_streamhold_pkey PRIMARY KEY (id);
ALTER TABLE governance_idempotencyrecord ADD CONSTRAINT idempotency_key_once UNIQUE (principal, operation, key);
ALTER TABLE jobs_approval ADD CONSTRAINT jobs_approval_pkey PRIMARY KEY (id);
ALTER TABLE jobs_attempt ADD CONSTRAINT jobs_attempt_pkey PRIMARY KEY (id);
ALTER TABLE jobs_escalation ADD CONSTRAINT jobs_escalation_pkey PRIMARY KEY (id);
ALTER TABLE jobs_execution ADD CONSTRAINT jobs_execution_external_request_id_key UNIQUE (external_request_id);
ALTER TABLE jobs_execution ADD CONSTRAINT jobs_execution_permit_id_key UNIQUE (permit_id);
ALTER TABLE jobs_execution ADD CONSTRAINT jobs_execution_pkey PRIMARY KEY (id);
ALTER TABLE jobs_executionevidence ADD CONSTRAINT jobs_executionevidence_pkey PRIMARY KEY (id);
ALTER TABLE jobs_job ADD CONSTRAINT jobs_job_job_id_key UNIQUE (job_id);
ALTER TABLE jobs_job ADD CONSTRAINT jobs_job_pkey PRIMARY KEY (id);
ALTER TABLE jobs_job ADD CONSTRAINT jobs_job_task_id_key UNIQUE (task_id);
ALTER TABLE jobs_jobtype ADD CONSTRAINT jobs_jobtype_name_key UNIQUE (name);
ALTER TABLE jobs_jobtype ADD CONSTRAINT jobs_jobtype_pkey PRIMARY KEY (id);
ALTER TABLE jobs_lease ADD CONSTRAINT jobs_lease_pkey PRIMARY KEY (job_id);
ALTER TABLE jobs_liveauthorization ADD CONSTRAINT jobs_liveauthorization_pkey PRIMARY KEY (id);
ALTER TABLE jobs_permit ADD CONSTRAINT jobs_permit_permit_id_key UNIQUE (permit_id);
ALTER TABLE jobs_permit ADD CONSTRAINT jobs_permit_pkey PRIMARY KEY (id);
ALTER TABLE jobs_reconciliation ADD CONSTRAINT jobs_reconciliation_pkey PRIMARY KEY (id);
ALTER TABLE jobs_reflection ADD CONSTRAINT jobs_reflection_pkey PRIMARY KEY (id);
ALTER TABLE jobs_retryextension ADD CONSTRAINT jobs_retryextension_pkey PRIMARY KEY (id);
ALTER TABLE jobs_review ADD CONSTRAINT jobs_review_pkey PRIMARY KEY (id);
ALTER TABLE jobs_skill ADD CONSTRAINT jobs_skill_pkey PRIMARY KEY (id);
ALTER TABLE jobs_source ADD CONSTRAINT jobs_source_name_key UNIQUE (name);
ALTER TABLE jobs_source ADD CONSTRAINT jobs_source_pkey PRIMARY KEY (id);
ALTER TABLE jobs_task ADD CONSTRAINT jobs_task_pkey PRIMARY KEY (job_id);
ALTER TABLE jobs_upload ADD CONSTRAINT jobs_upload_artifact_id_key UNIQUE (artifact_id);
ALTER TABLE jobs_upload ADD CONSTRAINT jobs_upload_pkey PRIMARY KEY (id);
ALTER TABLE jobs_upload ADD CONSTRAINT jobs_upload_upload_id_key UNIQUE (upload_id);
ALTER TABLE governance_languagemodel ADD CONSTRAINT language_model_once UNIQUE (provider, name);
ALTER TABLE governance_price ADD CONSTRAINT price_start_once UNIQUE (model_id, source, starts_at);
ALTER TABLE governance_pricetier ADD CONSTRAINT price_tier_threshold_once UNIQUE (price_id, above_input_tokens);
ALTER TABLE governance_prunedfact ADD CONSTRAINT pruned_fact_once UNIQUE (principal, fact_id);
ALTER TABLE jobs_reflection ADD CONSTRAINT reflection_number_once UNIQUE (job_id, number);
ALTER TABLE governance_reservationhold ADD CONSTRAINT reservation_hold_once UNIQUE (reservation_id, window_id);
ALTER TABLE governance_routedecision ADD CONSTRAINT route_decision_call_once UNIQUE (external_request_id, call);
ALTER TABLE governance_routepolicymodel ADD CONSTRAINT route_policy_model_once UNIQUE (policy_id, model_id);
ALTER TABLE governance_routepolicymodel ADD CONSTRAINT route_policy_position_once UNIQUE (policy_id, "position");
ALTER TABLE governance_savedview ADD CONSTRAINT saved_view_name_once UNIQUE (owner_id, model, name);
ALTER TABLE jobs_skill ADD CONSTRAINT skill_pattern_once UNIQUE (agent_id, task_type, context_type, pattern_sha256);
ALTER TABLE governance_streamhold ADD CONSTRAINT stream_hold_once_per_sink UNIQUE (sink, stream);
CREATE INDEX agents_activation_agent_id_e848d39f ON agents_activation (agent_id);
CREATE INDEX agents_activation_session_id_ba3f91cd ON agents_activation (session_id);
CREATE INDEX agents_admissionchange_agent_id_4b9e2753 ON agents_admissionchange (agent_id);
CREATE INDEX agents_agent_name_2453730f_like ON agents_agent (name varchar_pattern_ops);
CREATE INDEX agents_cellapproval_agent_id_c096e878 ON agents_cellapproval (agent_id);
CREATE INDEX agents_credential_agent_id_2013071a ON agents_credential (agent_id);
CREATE INDEX agents_credential_prefix_10c1e034_like ON agents_credential (prefix varchar_pattern_ops);
CREATE INDEX agents_credential_submitter_id_c99f4d95 ON agents_credential (submitter_id);
CREATE INDEX agents_maintenanceinhibit_agent_id_12f8ee03 ON agents_maintenanceinhibit (agent_id);
CREATE INDEX agents_runtimeswitch_agent_id_2d3aff24 ON agents_runtimeswitch (agent_id);
CREATE INDEX agents_runtimeswitch_inhibit_id_7e58c532 ON agents_runtimeswitch (inhibit_id);
CREATE INDEX agents_session_agent_id_f8fedab8 ON agents_session (agent_id);
CREATE INDEX agents_submitter_name_83b3b728_like ON agents_submitter (name varchar_pattern_ops);
CREATE INDEX agents_submitter_owner_id_553a309b ON agents_submitter (owner_id);
CREATE INDEX attempt_deadline_idx ON jobs_attempt (deadline_at) WHERE ((deadline_at IS NOT NULL) AND (ended_at IS NULL));
CREATE UNIQUE INDEX attempt_one_open_per_job ON jobs_attempt (job_id) WHERE (ended_at IS NULL);
CREATE INDEX auth_group_name_a6ea08ec_like ON auth_group (name varchar_pattern_ops);
CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON auth_group_permissions (group_id);
CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON auth_group_permissions (permission_id);
CREATE INDEX auth_permission_content_type_id_2f476e4b ON auth_permission (content_type_id);
CREATE INDEX auth_user_groups_group_id_97559544 ON auth_user_groups (group_id);
CREATE INDEX auth_user_groups_user_id_6a12ed8b ON auth_user_groups (user_id);
CREATE INDEX auth_user_user_permissions_permission_id_1fbb5f2c ON auth_user_user_permissions (permission_id);
CREATE INDEX auth_user_user_permissions_user_id_a95ead1b ON auth_user_user_permissions (user_id);
CREATE INDEX auth_user_username_6821ab7c_like ON auth_user (username varchar_pattern_ops);
CREATE INDEX axes_accessattempt_ip_address_10922d9c ON axes_accessattempt (ip_address);
CREATE INDEX axes_accessattempt_user_agent_ad89678b ON axes_accessattempt (user_agent);
CREATE INDEX axes_accessattempt_user_agent_ad89678b_like ON axes_accessattempt (user_agent varchar_pattern_ops);
CREATE INDEX axes_accessattempt_username_3f2d4ca0 ON axes_accessattempt (username);
CREATE INDEX axes_accessattempt_username_3f2d4ca0_like ON axes_accessattempt (username varchar_pattern_ops);
CREATE INDEX axes_accessfailurelog_ip_address_2e9f5a7f ON axes_accessfailurelog (ip_address);
CREATE INDEX axes_accessfailurelog_user_agent_ea145dda ON axes_accessfailurelog (user_agent);
CREATE INDEX axes_accessfailurelog_user_agent_ea145dda_like ON axes_accessfailurelog (user_agent varchar_pattern_ops);
CREATE INDEX axes_accessfailurelog_username_a8b7e8a4 ON axes_accessfailurelog (username);
CREATE INDEX axes_accessfailurelog_username_a8b7e8a4_like ON axes_accessfailurelog (username varchar_pattern_ops);
CREATE INDEX axes_accesslog_ip_address_86b417e5 ON axes_accesslog (ip_address);
CREATE INDEX axes_accesslog_user_agent_0e659004 ON axes_accesslog (user_agent);
CREATE INDEX axes_accesslog_user_agent_0e659004_like ON axes_accesslog (user_agent varchar_pattern_ops);
CREATE INDEX axes_accesslog_username_df93064b ON axes_accesslog (username);
CREATE INDEX axes_accesslog_username_df93064b_like ON axes_accesslog (username varchar_pattern_ops);
CREATE INDEX bulk_run_open_idx ON governance_bulkrun (id) WHERE (finished_at IS NULL);
CREATE UNIQUE INDEX cell_approval_one_in_force ON agents_cellapproval (agent_id, cell_id) WHERE (withdrawn_at IS NULL);
CREATE INDEX django_admin_log_content_type_id_c4bce8eb ON django_admin_log (content_type_id);
CREATE INDEX django_admin_log_user_id_c564eba6 ON django_admin_log (user_id);
CREATE INDEX django_session_expire_date_a5c62663 ON django_session (expire_date);
CREATE INDEX django_session_session_key_c0390e0f_like ON django_session (session_key varchar_pattern_ops);
CREATE UNIQUE INDEX escalation_one_open_per_job ON jobs_escalation (job_id) WHERE (resolved_at IS NULL);
CREATE INDEX execution_unknown_idx ON jobs_execution (id) WHERE ((state)::text = 'unknown'::text);
CREATE INDEX fact_waiting_idx ON governance_fact (id) WHERE ((published_at IS NULL) AND relayed);
CREATE INDEX governance_auditcheckpointleaf_checkpoint_id_91e39712 ON governance_auditcheckpointleaf (checkpoint_id);
CREATE INDEX governance_budgetwindow_budget_id_2e065975 ON governance_budgetwindow (budget_id);
CREATE INDEX governance_bulkrun_user_id_516611c0 ON governance_bulkrun (user_id);
CREATE INDEX governance_factsink_name_1322bc48_like ON governance_factsink (name varchar_pattern_ops);
CREATE INDEX governance_factstream_name_b4c17345_like ON governance_factstream (name varchar_pattern_ops);
CREATE INDEX governance_price_model_id_2744678f ON governance_price (model_id);
CREATE INDEX governance_pricetier_price_id_ede887ef ON governance_pricetier (price_id);
CREATE INDEX governance_pulse_name_da5eb82c_like ON governance_pulse (name varchar_pattern_ops);
CREATE INDEX governance_reservation_route_request_id_9fbcfbc3_like ON governance_reservation (route_request_id varchar_pattern_ops);
CREATE INDEX governance_reservationhold_window_id_65e05308 ON governance_reservationhold (window_id);
CREATE INDEX governance_routedecision_model_id_fc541908 ON governance_routedecision (model_id);
CREATE INDEX governance_routedecision_policy_id_901cd418 ON governance_routedecision (policy_id);
CREATE INDEX governance_routedecision_price_id_eb2bc6b2 ON governance_routedecision (price_id);
CREATE INDEX governance_routedecision_route_request_id_303edc5d_like ON governance_routedecision (route_request_id varchar_pattern_ops);
CREATE INDEX governance_routepolicymodel_model_id_9e31b18b ON governance_routepolicymodel (model_id);
CREATE INDEX governance_routepolicymodel_policy_id_372f7f76 ON governance_routepolicymodel (policy_id);
CREATE INDEX governance_savedview_owner_id_f32afa4a ON governance_savedview (owner_id);
CREATE INDEX governance_streamhold_fact_id_d0f015f6 ON governance_streamhold (fact_id);
CREATE INDEX idempotency_age_idx ON governance_idempotencyrecord (created_at);
CREATE INDEX idempotency_body_age_idx ON governance_idempotencyrecord (created_at) WHERE (body IS NOT NULL);
CREATE INDEX inhibit_open_idx ON agents_maintenanceinhibit (agent_id) WHERE (lifted_at IS NULL);
CREATE INDEX job_approval_idx ON jobs_job (approval_valid_until) WHERE ((approval_valid_until IS NOT NULL) AND ((state)::text = 'queued'::text));
CREATE INDEX job_by_agent_idx ON jobs_job (agent_id, id DESC);
CREATE INDEX job_by_state_idx ON jobs_job (state, id DESC);
CREATE INDEX job_by_submitter_idx ON jobs_job (submitted_by, id DESC);
CREATE INDEX job_claim_idx ON jobs_job (agent_id, priority DESC, available_at, id) WHERE ((NOT paused) AND ((state)::text = 'queued'::text));
CREATE INDEX job_deadline_idx ON jobs_job (deadline_at) WHERE ((deadline_at IS NOT NULL) AND (finished_at IS NULL));
CREATE INDEX job_finished_idx ON jobs_job (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX job_high_risk_idx ON jobs_job (id DESC) WHERE ((risk_tier)::text = 'high'::text);
CREATE INDEX job_inbox_idx ON jobs_job (state, state_since) WHERE ((state)::text = ANY ((ARRAY['held'::varchar, 'review_required'::varchar, 'needs_rework'::varchar, 'in_doubt'::varchar, 'escalated'::varchar])::text[]));
CREATE INDEX job_paused_idx ON jobs_job (id DESC) WHERE paused;
CREATE INDEX job_queue_wait_idx ON jobs_job (expires_if_not_started_at) WHERE ((attempt = 0) AND (expires_if_not_started_at IS NOT NULL) AND ((state)::text = 'queued'::text));
CREATE INDEX jobs_approval_job_id_85358204 ON jobs_approval (job_id);
CREATE INDEX jobs_escalation_job_id_0c0a5b7c ON jobs_escalation (job_id);
CREATE INDEX jobs_execution_external_request_id_f1e73b95_like ON jobs_execution (external_request_id varchar_pattern_ops);
CREATE INDEX jobs_executionevidence_execution_id_04651c68 ON jobs_executionevidence (execution_id);
CREATE INDEX jobs_job_task_id_561b0367_like ON jobs_job (task_id varchar_pattern_ops);
CREATE INDEX jobs_jobtype_agent_id_1fbe02da ON jobs_jobtype (agent_id);
CREATE INDEX jobs_jobtype_name_13bb7cc1_like ON jobs_jobtype (name varchar_pattern_ops);
CREATE INDEX jobs_liveauthorization_agent_id_1e0e3874 ON jobs_liveauthorization (agent_id);
CREATE INDEX jobs_reconciliation_execution_id_64624b51 ON jobs_reconciliation (execution_id);
CREATE INDEX jobs_reflection_agent_id_addf6a5a ON jobs_reflection (agent_id);
CREATE INDEX jobs_retryextension_job_id_bfcf63b8 ON jobs_retryextension (job_id);
CREATE INDEX jobs_review_job_id_fffb8d45 ON jobs_review (job_id);
CREATE INDEX jobs_skill_agent_id_97dbbe8e ON jobs_skill (agent_id);
CREATE INDEX jobs_source_name_7fe36e23_like ON jobs_source (name varchar_pattern_ops);
CREATE INDEX jobs_upload_job_id_a11a816c ON jobs_upload (job_id);
CREATE INDEX live_authorization_idx ON jobs_liveauthorization (agent_id, runtime) WHERE (revoked_at IS NULL);
CREATE INDEX permit_of_attempt_idx ON jobs_permit (job_id, attempt);
CREATE UNIQUE INDEX permit_one_open_or_spent_per_attempt ON jobs_permit (job_id, attempt) WHERE ((state)::text = ANY ((ARRAY['issued'::varchar, 'spent'::varchar])::text[]));
CREATE UNIQUE INDEX reconciliation_final_once ON jobs_reconciliation (execution_id) WHERE (NOT ((verdict)::text = 'undetermined'::text));
CREATE INDEX reservation_execution_idx ON governance_reservation (external_request_id);
CREATE INDEX reservation_job_idx ON governance_reservation (job_id, attempt);
CREATE INDEX reservation_open_idx ON governance_reservation (job_id) WHERE ((state)::text = ANY ((ARRAY['held'::varchar, 'in_doubt'::varchar])::text[]));
CREATE INDEX resolution_flagged_idx ON governance_resolution (resolved_at) WHERE (overrun OR usage_missing);
CREATE INDEX route_decision_job_idx ON governance_routedecision (job_id, attempt);
CREATE UNIQUE INDEX route_policy_one_in_force ON governance_routepolicy (agent, job_type, risk_tier) WHERE (retired_at IS NULL);
CREATE UNIQUE INDEX runtime_switch_one_at_a_time ON agents_runtimeswitch (agent_id) WHERE ((state)::text = 'running'::text);
CREATE UNIQUE INDEX session_generation_once ON agents_session (agent_id, cell_id, generation) WHERE ((kind)::text = 'activated'::text);
CREATE INDEX session_implicit_made_idx ON agents_session (agent_id, created_at) WHERE ((kind)::text = 'implicit'::text);
CREATE UNIQUE INDEX session_one_current_per_cell ON agents_session (agent_id, cell_id) WHERE (((kind)::text = 'activated'::text) AND ((state)::text = 'current'::text));
CREATE UNIQUE INDEX session_one_implicit_per_worker ON agents_session (agent_id, worker_id) WHERE ((kind)::text = 'implicit'::text);
CREATE INDEX session_pending_idx ON agents_session (created_at) WHERE ((state)::text = 'pending'::text);
CREATE INDEX skill_find_idx ON jobs_skill (task_type, context_type, confidence DESC);
CREATE INDEX stream_hold_parked_idx ON governance_streamhold (parked_at, stream) WHERE (parked_at IS NOT NULL);
CREATE UNIQUE INDEX upload_name_once_per_attempt ON jobs_upload (job_id, fencing_token, name) WHERE ((state)::text = 'stored'::text);
CREATE TRIGGER agents_activation_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON agents_activation FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER agents_admissionchange_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON agents_admissionchange FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER agents_agent_guard BEFORE UPDATE ON agents_agent FOR EACH ROW EXECUTE FUNCTION agents_agent_guard();
CREATE TRIGGER agents_agent_never_deleted BEFORE DELETE OR TRUNCATE ON agents_agent FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER agents_credential_guard BEFORE UPDATE ON agents_credential FOR EACH ROW EXECUTE FUNCTION agents_credential_guard();
CREATE TRIGGER agents_fleet_never_deleted BEFORE DELETE OR TRUNCATE ON agents_fleet FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER agents_runtimeswitch_guard BEFORE UPDATE ON agents_runtimeswitch FOR EACH ROW EXECUTE FUNCTION agents_runtimeswitch_guard();
CREATE TRIGGER agents_session_guard BEFORE UPDATE ON agents_session FOR EACH ROW EXECUTE FUNCTION agents_session_guard();
CREATE TRIGGER agents_session_never_deleted BEFORE DELETE OR TRUNCATE ON agents_session FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER agents_submitter_never_deleted BEFORE DELETE OR TRUNCATE ON agents_submitter FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER governance_auditcheckpoint_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_auditcheckpoint FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_auditcheckpointleaf_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_auditcheckpointleaf FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_auditevent_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_auditevent FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_budget_guard BEFORE UPDATE ON governance_budget FOR EACH ROW EXECUTE FUNCTION governance_budget_guard();
CREATE TRIGGER governance_budget_no_delete BEFORE DELETE OR TRUNCATE ON governance_budget FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_budgetwindow_guard BEFORE UPDATE ON governance_budgetwindow FOR EACH ROW EXECUTE FUNCTION governance_budgetwindow_guard();
CREATE TRIGGER governance_budgetwindow_no_delete BEFORE DELETE OR TRUNCATE ON governance_budgetwindow FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_fact_guard BEFORE DELETE OR UPDATE ON governance_fact FOR EACH ROW EXECUTE FUNCTION governance_fact_guard();
CREATE TRIGGER governance_fact_no_truncate BEFORE TRUNCATE ON governance_fact FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_factsink_never_deleted BEFORE DELETE OR TRUNCATE ON governance_factsink FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_factstream_guard BEFORE UPDATE ON governance_factstream FOR EACH ROW EXECUTE FUNCTION governance_factstream_guard();
CREATE TRIGGER governance_factstream_never_deleted BEFORE DELETE OR TRUNCATE ON governance_factstream FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_languagemodel_no_delete BEFORE DELETE OR TRUNCATE ON governance_languagemodel FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_price_guard BEFORE UPDATE ON governance_price FOR EACH ROW EXECUTE FUNCTION governance_price_guard();
CREATE TRIGGER governance_price_no_delete BEFORE DELETE OR TRUNCATE ON governance_price FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_pricetier_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_pricetier FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_prunedfact_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_prunedfact FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_reservation_guard BEFORE INSERT OR UPDATE ON governance_reservation FOR EACH ROW EXECUTE FUNCTION governance_reservation_guard();
CREATE TRIGGER governance_reservation_no_delete BEFORE DELETE OR TRUNCATE ON governance_reservation FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_reservationhold_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_reservationhold FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_resolution_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_resolution FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_resolution_guard BEFORE INSERT ON governance_resolution FOR EACH ROW EXECUTE FUNCTION governance_resolution_guard();
CREATE TRIGGER governance_routedecision_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_routedecision FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_routepolicy_guard BEFORE UPDATE ON governance_routepolicy FOR EACH ROW EXECUTE FUNCTION governance_routepolicy_guard();
CREATE TRIGGER governance_routepolicy_no_delete BEFORE DELETE OR TRUNCATE ON governance_routepolicy FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_routepolicymodel_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_routepolicymodel FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER jobs_approval_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_approval FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER jobs_approval_guard BEFORE INSERT ON jobs_approval FOR EACH ROW EXECUTE FUNCTION jobs_approval_guard();
CREATE TRIGGER jobs_attempt_guard BEFORE UPDATE ON jobs_attempt FOR EACH ROW EXECUTE FUNCTION jobs_attempt_guard();
CREATE TRIGGER jobs_attempt_never_deleted BEFORE DELETE OR TRUNCATE ON jobs_attempt FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER jobs_execution_guard BEFORE UPDATE ON jobs_execution FOR EACH ROW EXECUTE FUNCTION jobs_execution_guard();
CREATE TRIGGER jobs_execution_never_deleted BEFORE DELETE OR TRUNCATE ON jobs_execution FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER jobs_executionevidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_executionevidence FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER jobs_job_guard BEFORE UPDATE ON jobs_job FOR EACH ROW EXECUTE FUNCTION jobs_job_guard();
CREATE TRIGGER jobs_job_never_deleted BEFORE DELETE OR TRUNCATE ON jobs_job FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER jobs_jobtype_never_deleted BEFORE DELETE OR TRUNCATE ON jobs_jobtype FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER jobs_permit_guard BEFORE UPDATE ON jobs_permit FOR EACH ROW EXECUTE FUNCTION jobs_permit_guard();
CREATE TRIGGER jobs_permit_never_deleted BEFORE DELETE OR TRUNCATE ON jobs_permit FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER jobs_reconciliation_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_reconciliation FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER jobs_reflection_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_reflection FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER jobs_retryextension_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_retryextension FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER jobs_review_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_review FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER jobs_source_never_deleted BEFORE DELETE OR TRUNCATE ON jobs_source FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER jobs_task_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_task FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
ALTER TABLE agents_activation ADD CONSTRAINT agents_activation_agent_id_e848d39f_fk_agents_agent_id FOREIGN KEY (agent_id) REFERENCES agents_agent(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE agents_activation ADD CONSTRAINT agents_activation_session_id_ba3f91cd_fk_agents_session_id FOREIGN KEY (session_id) REFERENCES agents_session(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE agents_admissionchange ADD CONSTRAINT agents_admissionchange_agent_id_4b9e2753_fk_agents_agent_id FOREIGN KEY (agent_id) REFERENCES agents_agent(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE agents_cellapproval ADD CONSTRAINT agents_cellapproval_agent_id_c096e878_fk_agents_agent_id FOREIGN KEY (agent_id) REFERENCES agents_agent(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE agents_credential ADD CONSTRAINT agents_credential_agent_id_2013071a_fk_agents_agent_id FOREIGN KEY (agent_id) REFERENCES agents_agent(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE agents_credential ADD CONSTRAINT agents_credential_submitter_id_c99f4d95_fk_agents_submitter_id FOREIGN KEY (submitter_id) REFERENCES agents_submitter(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE agents_maintenanceinhibit ADD CONSTRAINT agents_maintenanceinhibit_agent_id_12f8ee03_fk_agents_agent_id FOREIGN KEY (agent_id) REFERENCES agents_agent(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE agents_presence ADD CONSTRAINT agents_presence_session_id_3ebdc968_fk_agents_session_id FOREIGN KEY (session_id) REFERENCES agents_session(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE agents_runtimeswitch ADD CONSTRAINT agents_runtimeswitch_agent_id_2d3aff24_fk_agents_agent_id FOREIGN KEY (agent_id) REFERENCES agents_agent(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE agents_runtimeswitch ADD CONSTRAINT agents_runtimeswitch_inhibit_id_7e58c532_fk_agents_ma FOREIGN KEY (inhibit_id) REFERENCES agents_maintenanceinhibit(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE agents_session ADD CONSTRAINT agents_session_agent_id_f8fedab8_fk_agents_agent_id FOREIGN KEY (agent_id) REFERENCES agents_agent(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE agents_submitter ADD CONSTRAINT agents_submitter_owner_id_553a309b_fk_auth_user_id FOREIGN KEY (owner_id) REFERENCES auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE auth_group_permissions ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE auth_group_permissions ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE auth_permission ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE auth_user_groups ADD CONSTRAINT auth_user_groups_group_id_97559544_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE auth_user_groups ADD CONSTRAINT auth_user_groups_user_id_6a12ed8b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE auth_user_user_permissions ADD CONSTRAINT auth_user_user_permi_permission_id_1fbb5f2c_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE auth_user_user_permissions ADD CONSTRAINT auth_user_user_permissions_user_id_a95ead1b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE axes_accessattemptexpiration ADD CONSTRAINT axes_accessattemptex_access_attempt_id_6b73a47a_fk_axes_acce FOREIGN KEY (access_attempt_id) REFERENCES axes_accessattempt(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE django_admin_log ADD CONSTRAINT django_admin_log_content_type_id_c4bce8eb_fk_django_co FOREIGN KEY (content_type_id) REFERENCES django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE django_admin_log ADD CONSTRAINT django_admin_log_user_id_c564eba6_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_auditcheckpointleaf ADD CONSTRAINT governance_auditchec_checkpoint_id_91e39712_fk_governanc FOREIGN KEY (checkpoint_id) REFERENCES governance_auditcheckpoint(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_budgetwindow ADD CONSTRAINT governance_budgetwin_budget_id_2e065975_fk_governanc FOREIGN KEY (budget_id) REFERENCES governance_budget(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_bulkitem ADD CONSTRAINT governance_bulkitem_run_id_2536bce9_fk_governance_bulkrun_id FOREIGN KEY (run_id) REFERENCES governance_bulkrun(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_bulkrun ADD CONSTRAINT governance_bulkrun_user_id_516611c0_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_price ADD CONSTRAINT governance_price_model_id_2744678f_fk_governanc FOREIGN KEY (model_id) REFERENCES governance_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_pricetier ADD CONSTRAINT governance_pricetier_price_id_ede887ef_fk_governance_price_id FOREIGN KEY (price_id) REFERENCES governance_price(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_reservation ADD CONSTRAINT governance_reservati_decision_id_3150b68c_fk_governanc FOREIGN KEY (decision_id) REFERENCES governance_routedecision(decision_id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_reservationhold ADD CONSTRAINT governance_reservati_reservation_id_a81dd178_fk_governanc FOREIGN KEY (reservation_id) REFERENCES governance_reservation(reservation_id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_reservationhold ADD CONSTRAINT governance_reservati_window_id_65e05308_fk_governanc FOREIGN KEY (window_id) REFERENCES governance_budgetwindow(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_resolution ADD CONSTRAINT governance_resolutio_reservation_id_2b960042_fk_governanc FOREIGN KEY (reservation_id) REFERENCES governance_reservation(reservation_id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_routedecision ADD CONSTRAINT governance_routedeci_model_id_fc541908_fk_governanc FOREIGN KEY (model_id) REFERENCES governance_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_routedecision ADD CONSTRAINT governance_routedeci_policy_id_901cd418_fk_governanc FOREIGN KEY (policy_id) REFERENCES governance_routepolicy(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_routedecision ADD CONSTRAINT governance_routedeci_price_id_eb2bc6b2_fk_governanc FOREIGN KEY (price_id) REFERENCES governance_price(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_routepolicymodel ADD CONSTRAINT governance_routepoli_model_id_9e31b18b_fk_governanc FOREIGN KEY (model_id) REFERENCES governance_languagemodel(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_routepolicymodel ADD CONSTRAINT governance_routepoli_policy_id_372f7f76_fk_governanc FOREIGN KEY (policy_id) REFERENCES governance_routepolicy(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_savedview ADD CONSTRAINT governance_savedview_owner_id_f32afa4a_fk_auth_user_id FOREIGN KEY (owner_id) REFERENCES auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE governance_streamhold ADD CONSTRAINT governance_streamhold_fact_id_d0f015f6_fk_governance_fact_id FOREIGN KEY (fact_id) REFERENCES governance_fact(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_approval ADD CONSTRAINT jobs_approval_job_id_85358204_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES jobs_job(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_attempt ADD CONSTRAINT jobs_attempt_job_id_b587cf59_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES jobs_job(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_escalation ADD CONSTRAINT jobs_escalation_job_id_0c0a5b7c_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES jobs_job(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_execution ADD CONSTRAINT jobs_execution_job_id_f1a67db0_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES jobs_job(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_execution ADD CONSTRAINT jobs_execution_permit_id_f0abcc1b_fk_jobs_permit_id FOREIGN KEY (permit_id) REFERENCES jobs_permit(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_executionevidence ADD CONSTRAINT jobs_executioneviden_execution_id_04651c68_fk_jobs_exec FOREIGN KEY (execution_id) REFERENCES jobs_execution(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_jobtype ADD CONSTRAINT jobs_jobtype_agent_id_1fbe02da_fk_agents_agent_id FOREIGN KEY (agent_id) REFERENCES agents_agent(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_lease ADD CONSTRAINT jobs_lease_job_id_fe8a91d4_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES jobs_job(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_liveauthorization ADD CONSTRAINT jobs_liveauthorization_agent_id_1e0e3874_fk_agents_agent_id FOREIGN KEY (agent_id) REFERENCES agents_agent(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_permit ADD CONSTRAINT jobs_permit_job_id_2f837b45_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES jobs_job(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_reconciliation ADD CONSTRAINT jobs_reconciliation_execution_id_64624b51_fk_jobs_execution_id FOREIGN KEY (execution_id) REFERENCES jobs_execution(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_reflection ADD CONSTRAINT jobs_reflection_agent_id_addf6a5a_fk_agents_agent_id FOREIGN KEY (agent_id) REFERENCES agents_agent(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_reflection ADD CONSTRAINT jobs_reflection_job_id_04f4cfdd_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES jobs_job(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_retryextension ADD CONSTRAINT jobs_retryextension_job_id_bfcf63b8_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES jobs_job(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_review ADD CONSTRAINT jobs_review_job_id_fffb8d45_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES jobs_job(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_skill ADD CONSTRAINT jobs_skill_agent_id_97dbbe8e_fk_agents_agent_id FOREIGN KEY (agent_id) REFERENCES agents_agent(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_task ADD CONSTRAINT jobs_task_job_id_6fefee23_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES jobs_job(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs_upload ADD CONSTRAINT jobs_upload_job_id_a11a816c_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES jobs_job(id) DEFERRABLE INITIALLY DEFERRED;
