"""What a live run is refused for, or warned of, before anything is started: what it would send."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetsieve.errors import UsageError
from fleetsieve.files import read_instance
from fleetsieve.live.sending import sending_of, too_few_requests
from fleetsieve.live.serving.config import read_serve_config


def test_all_classes_without_a_load_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    path.write_text('[serve]\nmodel = "m"\n')
    instance = read_instance("paper-h100-31b").instance
    with pytest.raises(UsageError, match="classes Chat, Code have neither a trace nor token counts") as caught:
        sending_of(instance, read_serve_config(path), 0)
    assert caught.value.hint is not None
    assert "[load.class.Chat] with trace = ... into serve.toml" in caught.value.hint
    others = "".join(f"[load.class.{c.name}]\ninput_tokens = 9\noutput_tokens = 9\n" for c in instance.classes[1:])
    path.write_text(f'[serve]\nmodel = "m"\n{others}')
    with pytest.raises(UsageError, match="class Chat has neither"):
        sending_of(instance, read_serve_config(path), 0)


def test_where_more_requests_are_asked_for_is_said() -> None:
    instance = read_instance("sim-chat-code-16gpu").instance
    told = too_few_requests(instance, instance.cells)
    assert told is not None
    assert "in instance.toml set [measure] min_requests = " in told
