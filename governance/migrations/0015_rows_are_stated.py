from django.db import migrations, models

FORWARD = """
CREATE OR REPLACE FUNCTION governance_outsidechange_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - '{seq,settled_at}'::text[]
       IS DISTINCT FROM to_jsonb(OLD) - '{seq,settled_at}'::text[]
       OR (OLD.seq IS NOT NULL AND NEW.seq IS DISTINCT FROM OLD.seq)
       OR (OLD.settled_at IS NOT NULL AND NEW.settled_at IS DISTINCT FROM OLD.settled_at) THEN
        RAISE EXCEPTION 'what was changed outside does not change'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION governance_is_ours(written_by xid)
    RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    top bigint := pg_current_xact_id()::text::bigint;
    ahead bigint := (written_by::text::bigint - top % 4294967296 + 4294967296) % 4294967296;
BEGIN
    IF ahead = 0 OR ahead >= 2147483648 THEN
        RETURN ahead = 0;
    END IF;
    BEGIN
        RETURN coalesce(pg_xact_status((top + ahead)::text::xid8) = 'in progress', false);
    EXCEPTION WHEN invalid_parameter_value THEN
        -- Frozen long ago, so that its id only looks like a later one.
        RETURN false;
    END;
END
$$;

CREATE OR REPLACE FUNCTION governance_stated(found jsonb, left_out text[], digested text[])
    RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(key, CASE
               WHEN value = 'null'::jsonb THEN value
               WHEN key = ANY (digested) THEN to_jsonb(
                   'sha256:' || encode(sha256(convert_to(value::text, 'UTF8')), 'hex'))
               WHEN jsonb_typeof(value) = 'string' THEN value
               ELSE to_jsonb(value::text) END), '{}'::jsonb)
      FROM jsonb_each(found) WHERE key <> ALL (left_out)
$$;

CREATE OR REPLACE FUNCTION governance_body(body bytea)
    RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN convert_from(body, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION governance_canonical(value jsonb)
    RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    CASE jsonb_typeof(value)
        WHEN 'object' THEN
            RETURN '{' || coalesce((
                SELECT string_agg(to_jsonb(key)::text || ':' || governance_canonical(member), ','
                                  ORDER BY key COLLATE "C")
                  FROM jsonb_each(value) AS m(key, member)), '') || '}';
        WHEN 'array' THEN
            RETURN '[' || coalesce((
                SELECT string_agg(governance_canonical(member), ',' ORDER BY place)
                  FROM jsonb_array_elements(value) WITH ORDINALITY AS m(member, place)), '') || ']';
        ELSE
            RETURN value::text;
    END CASE;
END
$$;

CREATE OR REPLACE FUNCTION governance_instant(at timestamp with time zone)
    RETURNS text LANGUAGE sql AS $$
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
           || CASE WHEN to_char(at, 'US') = '000000' THEN '' ELSE to_char(at, '.US') END
           || '+00:00'
$$;

CREATE OR REPLACE FUNCTION governance_append(of_subject text, head_table text, head_id bigint,
    done text, done_by text, why text, before jsonb, after jsonb, details jsonb)
    RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    last_seq bigint;
    last_hash bytea;
    at timestamptz;
    body bytea;
BEGIN
    EXECUTE format('SELECT audit_seq, audit_head FROM %I WHERE id = $1 FOR NO KEY UPDATE',
                   head_table) INTO last_seq, last_hash USING head_id;
    IF last_seq IS NULL THEN
        RETURN NULL;
    END IF;
    at := clock_timestamp();
    body := convert_to(governance_canonical(jsonb_build_object(
        'subject', of_subject, 'seq', last_seq + 1,
        'at', governance_instant(at),
        'action', done, 'actor', done_by, 'reason', why, 'request_id', '',
        'before', before, 'after', after, 'details', details)), 'UTF8');
    INSERT INTO governance_auditevent
           (subject, seq, at, action, actor, reason, request_id, body, prev_hash, hash)
    VALUES (of_subject, last_seq + 1, at, done, done_by, why, '', body, last_hash,
            sha256(last_hash || body));
    EXECUTE format('UPDATE %I SET audit_seq = $2, audit_head = $3 WHERE id = $1', head_table)
      USING head_id, last_seq + 1, sha256(last_hash || body);
    RETURN last_seq + 1;
END
$$;

CREATE OR REPLACE FUNCTION governance_needs_event() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    zone text := current_setting('TimeZone');
    written jsonb;
    of_key text;
    of_subject text;
    head_table text;
    head_id bigint;
    stated jsonb;
    was jsonb;
    event record;
    said jsonb;
    covered boolean := false;
BEGIN
    PERFORM set_config('TimeZone', 'UTC', true);
    written := CASE TG_OP WHEN 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END;
    of_key := TG_TABLE_NAME || ':' || (written->>'id');
    EXECUTE TG_ARGV[0] INTO of_subject, head_table, head_id USING written;
    EXECUTE format('SELECT governance_stated(to_jsonb(t), $2, $3) FROM %I t WHERE id = $1',
                   TG_TABLE_NAME)
       INTO stated USING (written->>'id')::bigint, TG_ARGV[1]::text[], TG_ARGV[2]::text[];
    -- Whoever appends holds the end of the chain until the commit: our events are the last ones.
    FOR event IN SELECT e.body, e.xmin AS written_by FROM governance_auditevent e
                  WHERE e.subject = of_subject ORDER BY e.seq DESC
    LOOP
        EXIT WHEN NOT governance_is_ours(event.written_by);
        said := governance_body(event.body);
        IF TG_ARGV[3] <> '' THEN
            EXECUTE TG_ARGV[3] INTO covered USING written, said;
            EXIT WHEN covered;
        ELSIF said->'details'->'rows' ? of_key THEN
            covered := (said->'details'->'rows'->of_key)
                       IS NOT DISTINCT FROM coalesce(stated, 'null'::jsonb);
            EXIT;
        END IF;
    END LOOP;
    IF covered THEN
        UPDATE governance_outsidechange SET settled_at = clock_timestamp()
         WHERE row_key = of_key AND settled_at IS NULL;
    ELSIF of_subject IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM governance_outsidechange c
         WHERE c.row_key = of_key AND c.seq IS NULL
    ) THEN
        IF TG_OP <> 'INSERT' THEN
            was := governance_stated(to_jsonb(OLD), TG_ARGV[1]::text[], TG_ARGV[2]::text[]);
        END IF;
        INSERT INTO governance_outsidechange
               (subject, head_table, head_id, row_key, operation, before, after, role, noted_at)
        VALUES (of_subject, head_table, head_id, of_key, TG_OP, was,
                stated, session_user, clock_timestamp());
    END IF;
    PERFORM set_config('TimeZone', zone, true);
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION governance_append_outside() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change record;
    appended bigint;
BEGIN
    FOR change IN SELECT * FROM governance_outsidechange
                   WHERE seq IS NULL ORDER BY subject COLLATE "C", id
    LOOP
        appended := governance_append(
            change.subject, change.head_table, change.head_id, 'changed_outside',
            'database:' || change.role, '',
            jsonb_build_object(change.row_key, change.before),
            jsonb_build_object(change.row_key, change.after),
            jsonb_build_object('operation', change.operation, 'session_user', change.role,
                               'rows', jsonb_build_object(change.row_key, change.after)));
        UPDATE governance_outsidechange SET seq = coalesce(appended, 0) WHERE id = change.id;
    END LOOP;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION governance_state_rows(of_table text, head text,
    left_out text[], digested text[])
    RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    zone text := current_setting('TimeZone');
    found record;
    of_subject text;
    head_table text;
    head_id bigint;
    done bigint := 0;
BEGIN
    PERFORM set_config('TimeZone', 'UTC', true);
    FOR found IN EXECUTE format(
        'SELECT id, to_jsonb(t) AS row, governance_stated(to_jsonb(t), $1, $2) AS stated'
        '  FROM %I t ORDER BY id', of_table) USING left_out, digested
    LOOP
        EXECUTE head INTO of_subject, head_table, head_id USING found.row;
        PERFORM governance_append(
            of_subject, head_table, head_id, 'configuration.stated', 'system:upgrade',
            'Stated as it was at the upgrade.', NULL, NULL,
            jsonb_build_object('rows', jsonb_build_object(
                of_table || ':' || found.id, found.stated)));
        done := done + 1;
    END LOOP;
    PERFORM set_config('TimeZone', zone, true);
    RETURN done;
END
$$;

CREATE CONSTRAINT TRIGGER governance_languagemodel_stated
    AFTER INSERT OR DELETE ON governance_languagemodel DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''model:'' || m.provider || ''/'' || m.name,
        ''governance_languagemodel'', m.id
        FROM governance_languagemodel m
        WHERE m.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER governance_languagemodel_restated
    AFTER UPDATE ON governance_languagemodel DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''model:'' || m.provider || ''/'' || m.name,
        ''governance_languagemodel'', m.id
        FROM governance_languagemodel m
        WHERE m.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER governance_price_stated
    AFTER INSERT OR DELETE ON governance_price DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''model:'' || m.provider || ''/'' || m.name,
        ''governance_languagemodel'', m.id
        FROM governance_languagemodel m
        WHERE m.id = ($1->>''model_id'')::bigint',
        '{audit_seq,audit_head}',
        '{document}',
        '');

CREATE CONSTRAINT TRIGGER governance_price_restated
    AFTER UPDATE ON governance_price DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''model:'' || m.provider || ''/'' || m.name,
        ''governance_languagemodel'', m.id
        FROM governance_languagemodel m
        WHERE m.id = ($1->>''model_id'')::bigint',
        '{audit_seq,audit_head}',
        '{document}',
        '');

CREATE CONSTRAINT TRIGGER governance_pricetier_stated
    AFTER INSERT OR DELETE ON governance_pricetier DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''model:'' || m.provider || ''/'' || m.name,
        ''governance_languagemodel'', m.id
        FROM governance_languagemodel m
        WHERE m.id = (SELECT model_id
        FROM governance_price
        WHERE id = ($1->>''price_id'')::bigint)',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER governance_pricetier_restated
    AFTER UPDATE ON governance_pricetier DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''model:'' || m.provider || ''/'' || m.name,
        ''governance_languagemodel'', m.id
        FROM governance_languagemodel m
        WHERE m.id = (SELECT model_id
        FROM governance_price
        WHERE id = ($1->>''price_id'')::bigint)',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER governance_routepolicy_stated
    AFTER INSERT OR DELETE ON governance_routepolicy DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''route_policy:'' || p.id,
        ''governance_routepolicy'', p.id
        FROM governance_routepolicy p
        WHERE p.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER governance_routepolicy_restated
    AFTER UPDATE ON governance_routepolicy DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''route_policy:'' || p.id,
        ''governance_routepolicy'', p.id
        FROM governance_routepolicy p
        WHERE p.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER governance_routepolicymodel_stated
    AFTER INSERT OR DELETE ON governance_routepolicymodel DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''route_policy:'' || p.id,
        ''governance_routepolicy'', p.id
        FROM governance_routepolicy p
        WHERE p.id = ($1->>''policy_id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER governance_routepolicymodel_restated
    AFTER UPDATE ON governance_routepolicymodel DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''route_policy:'' || p.id,
        ''governance_routepolicy'', p.id
        FROM governance_routepolicy p
        WHERE p.id = ($1->>''policy_id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER governance_budget_stated
    AFTER INSERT OR DELETE ON governance_budget DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''budget:'' || b.id,
        ''governance_budget'', b.id
        FROM governance_budget b
        WHERE b.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER governance_budget_restated
    AFTER UPDATE ON governance_budget DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''budget:'' || b.id,
        ''governance_budget'', b.id
        FROM governance_budget b
        WHERE b.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER governance_outsidechange_appended
    AFTER INSERT ON governance_outsidechange DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION governance_append_outside();

CREATE TRIGGER governance_outsidechange_never_deleted
    BEFORE DELETE OR TRUNCATE ON governance_outsidechange
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();

CREATE TRIGGER governance_outsidechange_guard
    BEFORE UPDATE ON governance_outsidechange
    FOR EACH ROW EXECUTE FUNCTION governance_outsidechange_guard();
"""

BACKWARD = """
DROP TRIGGER governance_outsidechange_guard ON governance_outsidechange;
DROP TRIGGER governance_outsidechange_never_deleted ON governance_outsidechange;
DROP TRIGGER governance_outsidechange_appended ON governance_outsidechange;
DROP TRIGGER governance_budget_restated ON governance_budget;
DROP TRIGGER governance_budget_stated ON governance_budget;
DROP TRIGGER governance_routepolicymodel_restated ON governance_routepolicymodel;
DROP TRIGGER governance_routepolicymodel_stated ON governance_routepolicymodel;
DROP TRIGGER governance_routepolicy_restated ON governance_routepolicy;
DROP TRIGGER governance_routepolicy_stated ON governance_routepolicy;
DROP TRIGGER governance_pricetier_restated ON governance_pricetier;
DROP TRIGGER governance_pricetier_stated ON governance_pricetier;
DROP TRIGGER governance_price_restated ON governance_price;
DROP TRIGGER governance_price_stated ON governance_price;
DROP TRIGGER governance_languagemodel_restated ON governance_languagemodel;
DROP TRIGGER governance_languagemodel_stated ON governance_languagemodel;
DROP FUNCTION governance_state_rows;
DROP FUNCTION governance_append_outside;
DROP FUNCTION governance_needs_event;
DROP FUNCTION governance_append;
DROP FUNCTION governance_instant;
DROP FUNCTION governance_canonical;
DROP FUNCTION governance_body;
DROP FUNCTION governance_stated;
DROP FUNCTION governance_is_ours;
DROP FUNCTION governance_outsidechange_guard;
"""

# What events of before say of these rows, they say with fewer words; nothing is rewritten.
BASELINE = """
SELECT governance_state_rows('governance_languagemodel',
    'SELECT ''model:'' || m.provider || ''/'' || m.name,
        ''governance_languagemodel'', m.id
        FROM governance_languagemodel m
        WHERE m.id = ($1->>''id'')::bigint',
    '{audit_seq,audit_head}', '{}');
SELECT governance_state_rows('governance_price',
    'SELECT ''model:'' || m.provider || ''/'' || m.name,
        ''governance_languagemodel'', m.id
        FROM governance_languagemodel m
        WHERE m.id = ($1->>''model_id'')::bigint',
    '{audit_seq,audit_head}', '{document}');
SELECT governance_state_rows('governance_pricetier',
    'SELECT ''model:'' || m.provider || ''/'' || m.name,
        ''governance_languagemodel'', m.id
        FROM governance_languagemodel m
        WHERE m.id = (SELECT model_id
        FROM governance_price
        WHERE id = ($1->>''price_id'')::bigint)',
    '{audit_seq,audit_head}', '{}');
SELECT governance_state_rows('governance_routepolicy',
    'SELECT ''route_policy:'' || p.id,
        ''governance_routepolicy'', p.id
        FROM governance_routepolicy p
        WHERE p.id = ($1->>''id'')::bigint',
    '{audit_seq,audit_head}', '{}');
SELECT governance_state_rows('governance_routepolicymodel',
    'SELECT ''route_policy:'' || p.id,
        ''governance_routepolicy'', p.id
        FROM governance_routepolicy p
        WHERE p.id = ($1->>''policy_id'')::bigint',
    '{audit_seq,audit_head}', '{}');
SELECT governance_state_rows('governance_budget',
    'SELECT ''budget:'' || b.id,
        ''governance_budget'', b.id
        FROM governance_budget b
        WHERE b.id = ($1->>''id'')::bigint',
    '{audit_seq,audit_head}', '{}');
"""


class Migration(migrations.Migration):
    dependencies = [("governance", "0014_unreserved_uses")]

    operations = [
        migrations.CreateModel(
            name="OutsideChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("subject", models.CharField(max_length=160)),
                ("head_table", models.CharField(max_length=63)),
                ("head_id", models.BigIntegerField()),
                ("row_key", models.CharField(max_length=100)),
                ("operation", models.CharField(max_length=6)),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
                ("role", models.CharField(max_length=63)),
                ("noted_at", models.DateTimeField()),
                ("seq", models.PositiveBigIntegerField(null=True)),
                ("settled_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("settled_at", None)),
                        fields=["noted_at"],
                        name="outside_change_open_idx",
                    ),
                    models.Index(
                        condition=models.Q(("settled_at", None)),
                        fields=["row_key"],
                        name="outside_change_row_idx",
                    ),
                    models.Index(
                        condition=models.Q(("seq", None)),
                        fields=["subject"],
                        name="outside_change_new_idx",
                    ),
                ],
            },
        ),
        migrations.RunSQL(FORWARD, reverse_sql=BACKWARD),
        migrations.RunSQL(BASELINE, reverse_sql=migrations.RunSQL.noop),
    ]
