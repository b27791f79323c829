"""serve.toml: what it gives, and every fault of it told with its line."""

# ruff: noqa: E501  (a table is read along its rows)

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fleetsieve.errors import InputError, UsageError
from fleetsieve.live.serving.command import command_of, environment_of, refuse_impossible, valid_tps
from fleetsieve.live.serving.config import read_serve_config
from fleetsieve.live.serving.load_config import ClassLoad, TokenCounts

WHOLE = """
[serve]
model = "tiny"
served_name = "small"
command = "nice -n 5 vllm serve"
arguments = ["--max-model-len", "2048"]
environment = { HF_HUB_OFFLINE = "1" }
gpus = [0, 1, 2, "GPU-5"]
ports = [9000, 9003]
ready_s = 60
reset = "none"
[serve.tp.2]
arguments = ["--max-num-seqs", "8"]
environment = { VLLM_SERVER_DEV_MODE = "0", HF_HUB_OFFLINE = "0" }
[load]
generator = "vllm-bench"
command = ["vllm", "bench", "serve"]
request_timeout_s = 30
seed = 7
[load.class.chat]
trace = "chat.csv"
format = "azure"
token_scale = 0.5
[load.class.code]
input_tokens = { min = 100, max = 900 }
output_tokens = 50
seed = 9
[load.class.other]
input_tokens = { mean = 300 }
output_tokens = { mean = 30.5 }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text(json.dumps({"num_attention_heads": 8}))
    (tmp_path / "chat.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    (tmp_path / "serve.toml").write_text(WHOLE)
    return tmp_path


def test_everything_that_can_be_stated_is_read(folder: Path) -> None:
    config = read_serve_config(folder / "serve.toml")
    assert config.model == str(folder / "tiny")
    assert (config.served_name, config.command) == ("small", ("nice", "-n", "5", "vllm", "serve"))
    assert (config.gpus, config.ports) == (("0", "1", "2", "GPU-5"), range(9000, 9004))
    assert (config.ready_s, config.stop_s, config.reset, config.attention_heads) == (60.0, 10.0, "none", 8)
    load = config.load
    assert (load.generator, load.command, load.request_timeout_s) == ("vllm-bench", ("vllm", "bench", "serve"), 30.0)
    assert load.tokenizer == config.model
    assert load.of_class("chat") == ClassLoad(folder / "chat.csv", "azure", 0.5, seed=7)
    assert load.of_class("code") == ClassLoad(
        input_tokens=TokenCounts(100, 900), output_tokens=TokenCounts(50, 50), seed=9
    )
    assert load.of_class("other").output_tokens == TokenCounts(mean=30.5)
    assert load.of_class("not named") == ClassLoad(seed=7)


def test_the_command_has_the_arguments_of_the_tp_last_and_the_environment_its_variables(folder: Path) -> None:
    config = read_serve_config(folder / "serve.toml")
    words = command_of(config, 2, 9001)
    assert words[:6] == ("nice", "-n", "5", "vllm", "serve", config.model)
    assert words[6:14] == (
        "--host",
        "127.0.0.1",
        "--port",
        "9001",
        "--tensor-parallel-size",
        "2",
        "--served-model-name",
        "small",
    )
    assert words[14:] == ("--max-model-len", "2048", "--max-num-seqs", "8")
    given = environment_of(config, 2, ("1", "2"))
    assert given == {
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "120",
        "VLLM_SERVER_DEV_MODE": "0",
        "CUDA_VISIBLE_DEVICES": "1,2",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "HF_HUB_OFFLINE": "0",
    }
    assert "CUDA_VISIBLE_DEVICES" not in environment_of(config, 1, ())


def test_a_model_name_alone_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    path.write_text('[serve]\nmodel = "meta/llama"\n')
    config = read_serve_config(path)
    assert (config.model, config.served_name, config.command) == ("meta/llama", "meta/llama", ("vllm", "serve"))
    assert (config.attention_heads, valid_tps(config), config.load.tokenizer) == (None, None, "meta/llama")
    refuse_impossible(config, 64)


@pytest.mark.parametrize(
    ("tp", "told"),
    [(3, "does not divide the 8 attention heads"), (8, "needs 8 GPUs, and serve.toml gives 4"), (5, "needs 5 GPUs")],
)
def test_a_tp_that_cannot_start_is_refused_with_those_that_can(folder: Path, tp: int, told: str) -> None:
    config = read_serve_config(folder / "serve.toml")
    assert valid_tps(config) == (1, 2, 4)
    with pytest.raises(UsageError, match=told) as caught:
        refuse_impossible(config, tp)
    assert caught.value.hint == "TP can be 1, 2, 4"


FAULTS = [
    ("", 0, "serve", "the section [serve] is missing"),
    ("[serve]\n", 1, "serve.model", "the key 'model' is missing"),
    ('[serve]\nmodel = ""\n', 2, "serve.model", "model is empty"),
    ('[serve]\nmodel = "./nowhere"\n', 2, "serve.model", "there is no folder ./nowhere"),
    ('[serve]\nmodel = "m"\nhost = "0.0.0.0"\n', 3, "serve.host", "'0.0.0.0' is open to others"),
    ('[serve]\nmodel = "m"\nhost = "example.org"\n', 3, "serve.host", "open to others"),
    ('[serve]\nmodel = "m"\nmodle = "m"\n', 3, "serve.modle", "unknown key 'modle'; did you mean 'model'?"),
    ('[serve]\nmodel = "m"\n[serv]\n', 3, "serv", "unknown section 'serv'; did you mean 'serve'?"),
    ('[serve]\nmodel = "m"\ncommand = ""\n', 3, "serve.command", "command is empty"),
    ('[serve]\nmodel = "m"\ncommand = "vllm \'serve"\n', 3, "serve.command", "cannot be split into words"),
    ('[serve]\nmodel = "m"\ncommand = 5\n', 3, "serve.command", "5 is not a command; command must be a text or a list of texts"),
    ('[serve]\nmodel = "m"\narguments = "--x"\n', 3, "serve.arguments", "'--x' is not a list of texts"),
    ('[serve]\nmodel = "m"\narguments = ["--port=1"]\n', 3, "serve.arguments", "--port is set by FleetSieve"),
    ('[serve]\nmodel = "m"\nenvironment = { A = 1 }\n', 3, "serve.environment.A", "1 is not a text"),
    ('[serve]\nmodel = "m"\ngpus = [0, 0]\n', 3, "serve.gpus", "GPU 0 appears twice in gpus"),
    ('[serve]\nmodel = "m"\ngpus = 2\n', 3, "serve.gpus", "gpus must be a list of GPU indices or UUIDs"),
    ('[serve]\nmodel = "m"\ngpus = [-1]\n', 3, "serve.gpus", "gpus must be a list"),
    ('[serve]\nmodel = "m"\nports = [9, 1]\n', 3, "serve.ports", "in rising order"),
    ('[serve]\nmodel = "m"\nports = 70000\n', 3, "serve.ports", "not ports from 1 to 65535"),
    ('[serve]\nmodel = "m"\nports = "x"\n', 3, "serve.ports", "'x' is not a port"),
    ('[serve]\nmodel = "m"\nready_s = 0\n', 3, "serve.ready_s", "ready_s must be > 0"),
    ('[serve]\nmodel = "m"\nreset = "cache"\n', 3, "serve.reset", 'reset must be one of "prefix-cache", "none"'),
    ('[serve]\nmodel = "m"\n[serve.tp.two]\n', 3, "serve.tp.two", "'two' is not a tensor-parallel degree"),
    ('[serve]\nmodel = "m"\n[serve.tp.2]\nargs = []\n', 4, "serve.tp.2.args", "unknown key 'args'"),
    ('[serve]\nmodel = "m"\ntp = 2\n', 3, "serve.tp", "write [serve.tp.4]"),
    ('[serve]\nmodel = "m"\n[load]\ngenerator = "wrk"\n', 4, "load.generator", 'one of "aiperf", "vllm-bench"'),
    ('[serve]\nmodel = "m"\n[load.class.a]\ntrace = "no.csv"\n', 4, "load.class.a.trace", "there is no file"),
    ('[serve]\nmodel = "m"\n[load.class.a]\nformat = "azure"\n', 4, "load.class.a.format", "needs a trace; write trace"),
    ('[serve]\nmodel = "m"\n[load.class.a]\ninput_tokens = 5\n', 4, "load.class.a.input_tokens", "needs output_tokens too"),
    ('[serve]\nmodel = "m"\n[load.class.a]\ntrace = "serve.toml"\ninput_tokens = 5\noutput_tokens = 5\n', 5, "load.class.a.input_tokens", "exclude each other"),
    ('[serve]\nmodel = "m"\n[load.class.a]\ntrace = "serve.toml"\ntoken_scale = "half"\n', 5, "load.class.a.token_scale", "token_scale"),
    ('[serve]\nmodel = "m"\n[load.class.a]\ntrace = "serve.toml"\ntoken_scale = 0\n', 5, "load.class.a.token_scale", "token_scale must be > 0"),
    ('[serve]\nmodel = "m"\n[load.class.a]\ninput_tokens = { min = 9, max = 1 }\noutput_tokens = 1\n', 4, "load.class.a.input_tokens", "min 9 is more than max 1"),
    ('[serve]\nmodel = "m"\n[load.class.a]\ninput_tokens = { min = 9 }\noutput_tokens = 1\n', 4, "load.class.a.input_tokens", "must be a number of tokens"),
    ('[serve]\nmodel = "m"\n[load.class.a]\ninput_tokens = 0\noutput_tokens = 1\n', 4, "load.class.a.input_tokens", "input_tokens must be >= 1"),
    ('[serve]\nmodel = "m"\n[load.class]\na = 1\n', 3, "load.class", "write [load.class.NAME]"),
    ('[serve]\nmodel = "m"\nfresh_warmup_s = 5\n', 3, "serve.fresh_warmup_s", "'fresh_warmup_s' belongs under [load]"),
    ('[serve]\nmodel = "m"\n[measure]\nmin_requests = 858\n', 3, "measure", "section 'measure' belongs in instance.toml"),
    ("[serve\n", 1, "", "this is not TOML"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "message"), FAULTS)
def test_a_wrong_serve_toml_is_told(tmp_path: Path, text: str, line: int, column: str, message: str) -> None:
    path = tmp_path / "serve.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_serve_config(path)
    (fault,) = caught.value.faults
    assert (fault.file, fault.line, fault.column) == ("serve.toml", line, column)
    assert message in fault.message


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    path.write_text('[serve]\nmodel = "m"\nhost = "::"\nready_s = -1\n[load]\nseed = 1.5\n')
    with pytest.raises(InputError) as caught:
        read_serve_config(path)
    assert [fault.line for fault in caught.value.faults] == [3, 4, 6]


def test_no_file_is_said_with_what_would_be_enough(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        read_serve_config(tmp_path / "serve.toml")


def test_a_folder_or_a_pipe_is_called_what_it_is(folder: Path) -> None:
    with pytest.raises(UsageError, match="is a folder, not a file") as caught:
        read_serve_config(folder)
    assert caught.value.hint == f"give the file in it: {folder / 'serve.toml'}"
    with pytest.raises(UsageError, match="tiny is a folder") as caught:
        read_serve_config(folder / "tiny")
    assert caught.value.hint == "give the serve.toml itself"
    os.mkfifo(folder / "pipe")
    with pytest.raises(UsageError, match="is a pipe, and a run reads its") as caught:
        read_serve_config(folder / "pipe")
    assert caught.value.hint == "write it to a file, and give that"


@pytest.mark.parametrize(
    ("content", "heads"),
    [
        ('{"num_attention_heads": 12}', 12),
        ('{"text_config": {"num_attention_heads": 16}}', 16),
        ('{"num_attention_heads": "many"}', None),
        ("[1]", None),
        ("no JSON", None),
    ],
)
def test_attention_heads_come_from_the_model_folder(tmp_path: Path, content: str, heads: int | None) -> None:
    (tmp_path / "config.json").write_text(content)
    path = tmp_path / "serve.toml"
    path.write_text('[serve]\nmodel = "."\n')
    assert read_serve_config(path).attention_heads == heads


def test_the_path_of_a_command_is_seen_from_the_file_where_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("serve", "vllm"):
        (tmp_path / "bin" / name).touch()
    (tmp_path / "bin" / "link").symlink_to("serve")
    path = tmp_path / "serve.toml"
    for stated, program in (
        ("bin/serve", f"{tmp_path}/bin/serve"),
        ("./bin/link", f"{tmp_path}/bin/link"),
        ("vllm", "vllm"),
        ("bin/other", "bin/other"),
        ("/bin/sh", "/bin/sh"),
    ):
        path.write_text(f'[serve]\nmodel = "m"\ncommand = ["{stated}", "-x"]\n[load]\ncommand = "{stated}"\n')
        config = read_serve_config(path)
        assert (config.command, config.load.command) == ((program, "-x"), (program,))
    (tmp_path / "vllm").touch()
    path.write_text('[serve]\nmodel = "m"\ncommand = "vllm serve"\n')
    assert read_serve_config(path).command == ("vllm", "serve"), "a name without a slash is looked for on the PATH"
