from django.db import migrations

FORWARD = """
CREATE CONSTRAINT TRIGGER agents_fleet_stated
    AFTER INSERT OR DELETE ON agents_fleet DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''fleet'',
        ''agents_fleet'', f.id
        FROM agents_fleet f',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER agents_fleet_restated
    AFTER UPDATE ON agents_fleet DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''fleet'',
        ''agents_fleet'', f.id
        FROM agents_fleet f',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER agents_agent_stated
    AFTER INSERT OR DELETE ON agents_agent DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER agents_agent_restated
    AFTER UPDATE ON agents_agent DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER agents_submitter_stated
    AFTER INSERT OR DELETE ON agents_submitter DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''submitter:'' || s.name,
        ''agents_submitter'', s.id
        FROM agents_submitter s
        WHERE s.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER agents_submitter_restated
    AFTER UPDATE ON agents_submitter DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''submitter:'' || s.name,
        ''agents_submitter'', s.id
        FROM agents_submitter s
        WHERE s.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER agents_taskprefix_stated
    AFTER INSERT OR DELETE ON agents_taskprefix DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''submitter:'' || s.name,
        ''agents_submitter'', s.id
        FROM agents_submitter s
        WHERE s.id = ($1->>''submitter_id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER agents_taskprefix_restated
    AFTER UPDATE ON agents_taskprefix DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''submitter:'' || s.name,
        ''agents_submitter'', s.id
        FROM agents_submitter s
        WHERE s.id = ($1->>''submitter_id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER agents_credential_stated
    AFTER INSERT OR DELETE ON agents_credential DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''agent_id'')::bigint
        UNION ALL SELECT ''submitter:'' || s.name,
        ''agents_submitter'', s.id
        FROM agents_submitter s
        WHERE s.id = ($1->>''submitter_id'')::bigint',
        '{audit_seq,audit_head,last_used_at}',
        '{hashed_key}',
        '');

CREATE CONSTRAINT TRIGGER agents_credential_restated
    AFTER UPDATE ON agents_credential DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head,last_used_at}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head,last_used_at}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''agent_id'')::bigint
        UNION ALL SELECT ''submitter:'' || s.name,
        ''agents_submitter'', s.id
        FROM agents_submitter s
        WHERE s.id = ($1->>''submitter_id'')::bigint',
        '{audit_seq,audit_head,last_used_at}',
        '{hashed_key}',
        '');

CREATE CONSTRAINT TRIGGER agents_maintenanceinhibit_stated
    AFTER INSERT OR DELETE ON agents_maintenanceinhibit DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''agent_id'')::bigint
        UNION ALL SELECT ''fleet'',
        ''agents_fleet'', f.id
        FROM agents_fleet f
        WHERE $1->>''agent_id'' IS NULL',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER agents_maintenanceinhibit_restated
    AFTER UPDATE ON agents_maintenanceinhibit DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''agent_id'')::bigint
        UNION ALL SELECT ''fleet'',
        ''agents_fleet'', f.id
        FROM agents_fleet f
        WHERE $1->>''agent_id'' IS NULL',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER agents_cellapproval_stated
    AFTER INSERT OR DELETE ON agents_cellapproval DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''agent_id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER agents_cellapproval_restated
    AFTER UPDATE ON agents_cellapproval DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''agent_id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');
"""

BACKWARD = """
DROP TRIGGER agents_cellapproval_restated ON agents_cellapproval;
DROP TRIGGER agents_cellapproval_stated ON agents_cellapproval;
DROP TRIGGER agents_maintenanceinhibit_restated ON agents_maintenanceinhibit;
DROP TRIGGER agents_maintenanceinhibit_stated ON agents_maintenanceinhibit;
DROP TRIGGER agents_credential_restated ON agents_credential;
DROP TRIGGER agents_credential_stated ON agents_credential;
DROP TRIGGER agents_taskprefix_restated ON agents_taskprefix;
DROP TRIGGER agents_taskprefix_stated ON agents_taskprefix;
DROP TRIGGER agents_submitter_restated ON agents_submitter;
DROP TRIGGER agents_submitter_stated ON agents_submitter;
DROP TRIGGER agents_agent_restated ON agents_agent;
DROP TRIGGER agents_agent_stated ON agents_agent;
DROP TRIGGER agents_fleet_restated ON agents_fleet;
DROP TRIGGER agents_fleet_stated ON agents_fleet;
"""

# What events of before say of these rows, they say with fewer words; nothing is rewritten.
BASELINE = """
SELECT governance_state_rows('agents_fleet',
    'SELECT ''fleet'',
        ''agents_fleet'', f.id
        FROM agents_fleet f',
    '{audit_seq,audit_head}', '{}');
SELECT governance_state_rows('agents_agent',
    'SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''id'')::bigint',
    '{audit_seq,audit_head}', '{}');
SELECT governance_state_rows('agents_submitter',
    'SELECT ''submitter:'' || s.name,
        ''agents_submitter'', s.id
        FROM agents_submitter s
        WHERE s.id = ($1->>''id'')::bigint',
    '{audit_seq,audit_head}', '{}');
SELECT governance_state_rows('agents_taskprefix',
    'SELECT ''submitter:'' || s.name,
        ''agents_submitter'', s.id
        FROM agents_submitter s
        WHERE s.id = ($1->>''submitter_id'')::bigint',
    '{audit_seq,audit_head}', '{}');
SELECT governance_state_rows('agents_credential',
    'SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''agent_id'')::bigint
        UNION ALL SELECT ''submitter:'' || s.name,
        ''agents_submitter'', s.id
        FROM agents_submitter s
        WHERE s.id = ($1->>''submitter_id'')::bigint',
    '{audit_seq,audit_head,last_used_at}', '{hashed_key}');
SELECT governance_state_rows('agents_maintenanceinhibit',
    'SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''agent_id'')::bigint
        UNION ALL SELECT ''fleet'',
        ''agents_fleet'', f.id
        FROM agents_fleet f
        WHERE $1->>''agent_id'' IS NULL',
    '{audit_seq,audit_head}', '{}');
SELECT governance_state_rows('agents_cellapproval',
    'SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''agent_id'')::bigint',
    '{audit_seq,audit_head}', '{}');
"""


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0018_types_not_asked_for"),
        ("governance", "0015_rows_are_stated"),
    ]

    operations = [
        migrations.RunSQL(FORWARD, reverse_sql=BACKWARD),
        migrations.RunSQL(BASELINE, reverse_sql=migrations.RunSQL.noop),
    ]
