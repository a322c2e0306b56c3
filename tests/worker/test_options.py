"""Options: what weighs more, and what is refused, in one line for a person."""

import pytest

from fencepost_worker.options import OPTIONS, Unusable, parse_options

NEEDED = ["--url", "http://plane", "--agent", "hermes", "--data", "d", "--token", "t"]


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "worker.toml"
        path.write_text(text)
        return ["--config", str(path)]

    return write


def test_the_command_line_weighs_more_than_the_environment_and_that_more_than_the_file(config):
    words = config(
        '[worker]\nurl = "http://file"\nagent = "file"\ndata = "kept"\ntoken_file = "t.token"\n'
    )
    environ = {"FENCEPOST_URL": "http://environment", "FENCEPOST_AGENT": "environment"}

    options = parse_options(["run", *words, "--url", "http://line"], environ=environ)

    assert (options.url, options.agent) == ("http://line", "environment")
    # Paths of a file are relative to it, wherever the worker is started.
    assert options.data.is_absolute() and options.data.name == "kept"


def test_a_token_that_weighs_more_leaves_the_other_kind_out(config):
    words = config('[worker]\ntoken_file = "t.token"\n')

    options = parse_options(["run", *words, *NEEDED], environ={"FENCEPOST_TOKEN_FILE": "e.token"})

    assert (options.token, options.token_file) == ("t", None)


def test_every_option_has_its_default_where_nobody_says_it():
    options = parse_options(["run", *NEEDED], environ={})

    said = {"url", "agent", "data", "token"}
    for option in OPTIONS:
        if option.name not in said:
            assert getattr(options, option.name) == option.default


def test_the_program_is_what_follows_the_dashes_or_what_the_file_names(config):
    words = config('[worker]\nprogram = ["python", "agent.py", "--verbose"]\n')

    given = parse_options(["run", *words, *NEEDED, "--", "other", "--once"], environ={})
    filed = parse_options(["run", *words, *NEEDED], environ={})

    assert (given.program, given.once) == (["other", "--once"], False)
    assert filed.program == ["python", "agent.py", "--verbose"]


def test_the_options_of_the_first_release_are_those_of_run(capsys):
    options = parse_options([*NEEDED, "--once", "--", "prog"], environ={})

    assert (options.command, options.once, options.program) == ("run", True, ["prog"])
    assert "fencepost-worker run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[worker]\nsize = 2\n", "worker.size is no option"),
        ('[worker]\nconcurrency = "2"\n', "worker.concurrency has another type"),
        ("[worker]\nconcurrency = true\n", "worker.concurrency has another type"),
        ('[worker]\nmode = "real"\n', "worker.mode is one of mock, live"),
        ("[worker]\npass_variables = [1]\n", "worker.pass_variables has another type"),
        ('[worker]\nconfig = "x"\n', "worker.config is no option"),
        ("[workers]\n", "unknown: workers"),
        ("worker = 3\n", "worker is no table"),
        ("[worker\n", "worker.toml"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_with_its_place(config, text, said):
    with pytest.raises(Unusable, match=said):
        parse_options(["run", *config(text), *NEEDED], environ={})


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(Unusable, match="--config"):
        parse_options(["run", "--config", str(tmp_path / "none.toml"), *NEEDED], environ={})


@pytest.mark.parametrize("missing", ["--url", "--agent", "--data"])
def test_what_no_worker_can_do_without_is_asked_for(missing):
    place = NEEDED.index(missing)
    words = NEEDED[:place] + NEEDED[place + 2 :]

    with pytest.raises(Unusable, match=f"{missing} is needed"):
        parse_options(["run", *words], environ={})
