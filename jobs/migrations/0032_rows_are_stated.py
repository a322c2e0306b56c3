from django.db import migrations

FORWARD = """
CREATE CONSTRAINT TRIGGER jobs_jobtype_stated
    AFTER INSERT OR DELETE ON jobs_jobtype DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''job_type:'' || t.name,
        ''jobs_jobtype'', t.id
        FROM jobs_jobtype t
        WHERE t.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{inputs_schema}',
        '');

CREATE CONSTRAINT TRIGGER jobs_jobtype_restated
    AFTER UPDATE ON jobs_jobtype DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''job_type:'' || t.name,
        ''jobs_jobtype'', t.id
        FROM jobs_jobtype t
        WHERE t.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{inputs_schema}',
        '');

CREATE CONSTRAINT TRIGGER jobs_source_stated
    AFTER INSERT OR DELETE ON jobs_source DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''source:'' || s.name,
        ''jobs_source'', s.id
        FROM jobs_source s
        WHERE s.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER jobs_source_restated
    AFTER UPDATE ON jobs_source DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''source:'' || s.name,
        ''jobs_source'', s.id
        FROM jobs_source s
        WHERE s.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER jobs_liveauthorization_stated
    AFTER INSERT OR DELETE ON jobs_liveauthorization DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''agent_id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER jobs_liveauthorization_restated
    AFTER UPDATE ON jobs_liveauthorization DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''agent_id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER jobs_retryextension_stated
    AFTER INSERT OR DELETE ON jobs_retryextension DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''job:'' || j.job_id,
        ''jobs_job'', j.id
        FROM jobs_job j
        WHERE j.id = ($1->>''job_id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        'SELECT $2->>''action'' = ''job.extended''
        AND $2->>''actor'' = $1->>''granted_by''
        AND $2->>''reason'' = $1->>''reason''
        AND $2->''details''->''from_max'' = $1->''from_max''
        AND $2->''details''->''to_max'' = $1->''to_max''');

CREATE CONSTRAINT TRIGGER jobs_retryextension_restated
    AFTER UPDATE ON jobs_retryextension DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''job:'' || j.job_id,
        ''jobs_job'', j.id
        FROM jobs_job j
        WHERE j.id = ($1->>''job_id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        'SELECT $2->>''action'' = ''job.extended''
        AND $2->>''actor'' = $1->>''granted_by''
        AND $2->>''reason'' = $1->>''reason''
        AND $2->''details''->''from_max'' = $1->''from_max''
        AND $2->''details''->''to_max'' = $1->''to_max''');
"""

BACKWARD = """
DROP TRIGGER jobs_retryextension_restated ON jobs_retryextension;
DROP TRIGGER jobs_retryextension_stated ON jobs_retryextension;
DROP TRIGGER jobs_liveauthorization_restated ON jobs_liveauthorization;
DROP TRIGGER jobs_liveauthorization_stated ON jobs_liveauthorization;
DROP TRIGGER jobs_source_restated ON jobs_source;
DROP TRIGGER jobs_source_stated ON jobs_source;
DROP TRIGGER jobs_jobtype_restated ON jobs_jobtype;
DROP TRIGGER jobs_jobtype_stated ON jobs_jobtype;
"""

# What events of before say of these rows, they say with fewer words; nothing is rewritten.
BASELINE = """
SELECT governance_state_rows('jobs_jobtype',
    'SELECT ''job_type:'' || t.name,
        ''jobs_jobtype'', t.id
        FROM jobs_jobtype t
        WHERE t.id = ($1->>''id'')::bigint',
    '{audit_seq,audit_head}', '{inputs_schema}');
SELECT governance_state_rows('jobs_source',
    'SELECT ''source:'' || s.name,
        ''jobs_source'', s.id
        FROM jobs_source s
        WHERE s.id = ($1->>''id'')::bigint',
    '{audit_seq,audit_head}', '{}');
SELECT governance_state_rows('jobs_liveauthorization',
    'SELECT ''agent:'' || a.name,
        ''agents_agent'', a.id
        FROM agents_agent a
        WHERE a.id = ($1->>''agent_id'')::bigint',
    '{audit_seq,audit_head}', '{}');
"""


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0031_execution_effects_are_bound"),
        ("governance", "0015_rows_are_stated"),
    ]

    operations = [
        migrations.RunSQL(FORWARD, reverse_sql=BACKWARD),
        migrations.RunSQL(BASELINE, reverse_sql=migrations.RunSQL.noop),
    ]
