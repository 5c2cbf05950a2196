from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from spanparse import MessageSpan, Reason
from spanparse.bounds.limits import Limits, Meter
from spanparse.cli.inspect_json import message_json

Run = Callable[..., Any]

USER = {"role": "user", "content": "Hello"}
CHATML = ("inspect", "templates/chatml.jinja", "--messages", "fixtures/conversations/chatml.json")


def test_the_json_has_every_key_of_the_contract(cli: Run) -> None:
    found = cli(*CHATML, "--tokenizer", "hybrid", "--json").json
    assert found["schema_version"] == 1
    assert found.keys() >= {
        "template", "text", "exact", "preamble", "messages", "generation_prompt", "tokens", "barriers"
    }  # fmt: skip
    assert found["template"].items() >= {"source": "templates/chatml.jinja", "family": "chatml"}.items()
    assert len(found["template"]["sha256"]) == 64
    assert found["preamble"].keys() >= {"start", "end", "parts"}
    for index, message in enumerate(found["messages"]):
        assert message.keys() >= {"index", "role", "start", "end", "exact", "reason", "notes", "parts"}
        assert message["index"] == index
    assert found["generation_prompt"].keys() >= {"start", "end", "parts"}
    assert found["tokens"].keys() >= {"count", "messages", "media"}
    for message in found["tokens"]["messages"]:
        assert message.keys() >= {"index", "begin", "end", "pos_begin", "pos_end", "backed_off"}
    for barrier in found["barriers"]:
        assert barrier.keys() >= {"offset", "token", "position", "backed_off", "stable"}


def test_the_spans_of_the_json_tile_the_text(cli: Run) -> None:
    found = cli(*CHATML, "--json").json
    ranges = [found["preamble"], *found["messages"], found["generation_prompt"]]
    assert ranges[0]["start"] == 0
    assert all(before["end"] == after["start"] for before, after in pairwise(ranges))
    assert ranges[-1]["end"] == len(found["text"])


def test_a_part_of_the_json_holds_what_its_source_says(cli: Run, conversation: Run) -> None:
    found = cli("inspect", "chatml", "--messages", conversation([USER]), "--json").json
    (content,) = [part for part in found["messages"][0]["parts"] if part["kind"] == "content"]
    assert content == {"kind": "content", "start": content["start"], "end": content["end"], "source": "content"}
    assert found["text"][content["start"] : content["end"]] == "Hello"


def test_tools_are_a_part_with_a_child_for_each(cli: Run) -> None:
    found = cli(*CHATML, "--json").json
    (tools,) = [part for part in found["messages"][0]["parts"] if part["kind"] == "tools"]
    assert [child["source"] for child in tools["children"]] == ["tools[0]", "tools[1]"]


def test_barriers_say_whether_what_is_before_them_stays(cli: Run, conversation: Run) -> None:
    found = cli("inspect", "chatml", "--messages", conversation([USER]), "--json").json
    (barrier,) = found["barriers"]
    assert (barrier["kind"], barrier["stable"]) == ("generation_prompt", True)


def test_without_a_tokenizer_tokens_are_null_and_barriers_stay(cli: Run) -> None:
    found = cli(*CHATML, "--json").json
    assert found["tokens"] is None
    assert found["barriers"]
    assert all(barrier["token"] is None and barrier["position"] is None for barrier in found["barriers"])


def test_a_tiny_models_name_is_a_source_with_its_own_tokenizer(cli: Run) -> None:
    found = cli("inspect", "hybrid", "--json").json
    assert found["template"]["source"] == "hybrid"
    assert found["tokens"]["count"] > 0


def test_a_message_in_two_places_lists_its_pieces(cli: Run, conversation: Run, tmp_path: Path) -> None:
    template = tmp_path / "twice.jinja"
    template.write_text("{{ messages[0].content }}|{{ messages[1].content }}|{{ messages[0].content }}|")
    messages = conversation([USER, {"role": "assistant", "content": "Bye"}])
    first = cli("inspect", template, "--messages", messages, "--json").json["messages"][0]
    assert len(first["pieces"]) == 2
    assert (first["start"], first["end"]) == (first["pieces"][0]["start"], first["pieces"][1]["end"])


def test_the_prompt_is_shown_with_the_owner_and_kind_of_every_stretch(cli: Run, conversation: Run) -> None:
    lines = cli("inspect", "chatml", "--messages", conversation([USER])).out.splitlines()
    shown = [line.split("│", 1) for line in lines if "│" in line]
    assert [(*gutter.split(), text) for gutter, text in shown] == [
        ("0", "user", "header", "<|im_start|>user⏎"),
        ("content", "Hello"),
        ("trailer", "<|im_end|>⏎"),
        ("assistant", "generation", "prompt", "<|im_start|>assistant⏎"),
        ("prefilled", "reasoning", "<think>⏎"),
    ]


def test_the_table_has_a_row_for_every_message_and_part(cli: Run, conversation: Run) -> None:
    lines = cli("inspect", "hybrid", "--messages", conversation([USER])).out.splitlines()
    rows = [line.split() for line in lines]
    assert ["#", "role", "part", "characters", "tokens", "exact?", "notes"] in rows
    assert ["0", "user", "0–33", "0–6", "exact"] in rows
    assert ["content", "17–22", "3–4"] in rows
    assert ["header", "33–55", "6–9"] in rows
    assert ["reasoning", "55–63", "9–11"] in rows


def test_tokens_are_listed_with_the_part_they_begin_in(cli: Run, conversation: Run) -> None:
    path = conversation([USER])
    lines = cli("inspect", "hybrid", "--messages", path, "--tokens").out.splitlines()
    assert any(line.split()[2:] == ["0–12", "<|im_start|>", "0", "user", "header"] for line in lines)
    ids = cli("inspect", "hybrid", "--messages", path, "--tokens", "--json").json["tokens"]
    assert len(ids["ids"]) == len(ids["offsets"]) == len(ids["pieces"]) == ids["count"]


def test_listed_tokens_show_the_bytes_they_spell(cli: Run, conversation: Run) -> None:
    path = conversation([{"role": "user", "content": "say 語"}])
    printed = cli("inspect", "hybrid", "--messages", path, "--tokens").out
    assert all(piece in printed for piece in ("\\xe8", "\\xaa", "\\x9e"))
    tokens = cli("inspect", "hybrid", "--messages", path, "--tokens", "--json").json
    assert "".join(tokens["tokens"]["pieces"]) == tokens["text"].replace("語", r"\xe8\xaa\x9e")


def test_listed_tokens_have_a_gap_at_every_barrier(cli: Run, conversation: Run) -> None:
    lines = cli("inspect", "hybrid", "--messages", conversation([USER]), "--tokens").out.splitlines()
    (barrier,) = (
        number for number, line in enumerate(lines) if line.split()[3:4] == ["<|im_start|>"] and "generation" in line
    )
    assert not lines[barrier - 1].strip()
    assert lines[barrier - 2].strip()


def test_listing_tokens_needs_a_tokenizer(cli: Run) -> None:
    assert "--tokens needs a tokenizer: no tokenizer given" in cli("inspect", "chatml", "--tokens").error


def test_a_control_token_in_content_counts_only_if_content_is_trusted(cli: Run, conversation: Run) -> None:
    path = conversation([{"role": "user", "content": "<|im_end|>"}])
    careful = cli("inspect", "hybrid", "--messages", path, "--json").json["tokens"]["count"]
    trusting = cli("inspect", "hybrid", "--messages", path, "--trust-content", "--json").json["tokens"]["count"]
    assert trusting < careful


def test_the_generation_prompt_can_be_left_out(cli: Run) -> None:
    assert cli("inspect", "chatml", "--no-generation-prompt", "--json").json["generation_prompt"] is None


def test_settings_reach_the_template(cli: Run) -> None:
    default = cli("inspect", "chatml", "--json").json["text"]
    other = cli("inspect", "chatml", "--set", "enable_thinking=false", "--json").json["text"]
    assert other.startswith(default)
    assert other != default


def test_tools_given_apart_are_rendered(cli: Run, conversation: Run, tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text('[{"type": "function", "function": {"name": "look_up"}}]')
    assert (
        "look_up"
        in cli("inspect", "chatml", "--messages", conversation([USER]), "--tools", tools, "--json").json["text"]
    )
    assert "look_up" in cli("inspect", "chatml", "--tools", tools, "--json").json["text"]


def test_without_messages_the_sample_is_used_and_named(cli: Run) -> None:
    assert "built-in sample conversation" in cli("inspect", "chatml").out
    assert "built-in sample conversation" in cli("inspect", "chatml", "--json").json["sample"]
    assert "sample" not in cli(*CHATML, "--json").json


def test_the_sample_is_cut_down_to_what_the_template_accepts(cli: Run, tmp_path: Path) -> None:
    template = tmp_path / "picky.jinja"
    template.write_text(
        "{% for m in messages %}{% if m.role not in ('user', 'assistant') %}{{ raise_exception('no') }}{% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    found = cli("inspect", template, "--json")
    assert found.code == 0
    assert "refuses" in found.json["sample"]


def test_the_sample_is_cut_down_for_want_of_a_special_token_and_says_how_to_give_it(cli: Run, tmp_path: Path) -> None:
    template = tmp_path / "bare.jinja"
    template.write_text(
        "{% for m in messages %}{{ m.content }}"
        "{% if m.role == 'assistant' %}{{ eos_token + '' }}{% endif %}{% endfor %}"
    )
    sample = cli("inspect", template, "--json").json["sample"]
    assert sample.endswith("refuses the rest: 'eos_token' is undefined (--set eos_token=TEXT gives it)")
    assert "cut down" not in cli("inspect", template, "--set", "eos_token=</s>", "--json").json["sample"]


def test_template_and_messages_can_come_through_standard_input(cli: Run, conversation: Run) -> None:
    template = b"{% for m in messages %}[{{ m.content }}]{% endfor %}"
    assert cli("inspect", "-", "--messages", conversation([USER]), "--json", stdin=template).json["text"] == "[Hello]"
    messages = b'[{"role": "user", "content": "Hi"}]'
    assert "Hi" in cli("inspect", "chatml", "--messages", "-", "--json", stdin=messages).json["text"]


def test_a_dropped_message_is_null_noted_and_warned_of_once(cli: Run, conversation: Run, tmp_path: Path) -> None:
    template = tmp_path / "users.jinja"
    template.write_text("{% for m in messages if m.role == 'user' %}{{ m.content }}\n{% endfor %}")
    found = cli("inspect", template, "--messages", conversation([{"role": "system", "content": "x"}, USER]), "--json")
    assert found.code == 0
    assert found.err == f"spanparse: warning: {template} renders nothing of messages[0] (system)\n"
    dropped = found.json["messages"][0]
    assert (dropped["start"], dropped["end"], dropped["exact"], dropped["notes"]) == (None, None, True, ["dropped"])


def test_text_that_would_act_on_a_terminal_is_shown_instead(cli: Run, conversation: Run) -> None:
    found = cli("inspect", "chatml", "--messages", conversation([{"role": "user", "content": "\x1b[31m\u202e[bold]"}]))
    assert "␛[31m\\u202e[bold]" in found.out
    assert "\x1b" not in found.out


def test_a_page_shows_the_same_and_needs_no_other_file(cli: Run, conversation: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    messages = conversation([{"role": "user", "content": "<script>alert(1)</script>"}])
    found = cli("inspect", "chatml", "--messages", messages, "--html", page)
    assert (found.code, found.out) == (0, "")
    html = page.read_text("utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "generation prompt" in html
    assert not re.search(r"<script|<link|src=|https?:", html)


def test_no_line_of_a_page_is_wider_than_a_window_but_those_that_it_wraps(
    cli: Run, conversation: Run, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    messages = conversation([{"role": "user", "content": "as long as it takes " * 40}])
    assert (
        cli("inspect", "chatml", "--messages", messages, "--tokens", "--tokenizer", "hybrid", "--html", page).code == 0
    )
    found = page.read_text("utf-8")
    body = unescape(re.sub(r"<[^>]*>", "", found[found.index("<pre>") :]))
    assert body.count("as long as it takes") > 30
    assert max(map(len, body.split("\n"))) <= 120
    assert "white-space: pre-wrap" in found


def test_all_renders_of_a_command_share_their_time(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines = []

    class Watched(Meter):
        def __init__(self, limits: Limits, *rest: Any) -> None:
            deadlines.append(limits.until)
            super().__init__(limits, *rest)

    monkeypatch.setattr("spanparse.rendering.render.Meter", Watched)
    commands = (
        ("inspect", "chatml", "--json"),
        ("predict", "chatml"),
        ("plan", "chatml", "--tokenizer", "hybrid"),
        ("analyse", "chatml"),
    )
    for command in commands:
        deadlines.clear()
        assert cli(*command).code == 0
        assert len(deadlines) > 5
        assert len(set(deadlines)) == 1, command


def test_a_page_and_json_exclude_each_other(cli: Run, tmp_path: Path) -> None:
    assert "--json and --html" in cli("inspect", "chatml", "--json", "--html", tmp_path / "page.html").error


def test_half_a_surrogate_pair_goes_through_json_unharmed(cli: Run, conversation: Run) -> None:
    found = cli("inspect", "chatml", "--messages", conversation([{"role": "user", "content": "a\ud800b"}]), "--json")
    assert found.code == 0
    assert "a\ud800b" in found.json["text"]


def test_a_gguf_is_inspected_without_the_runtime(cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gguf", reason="writing a model needs the [runtime] extra")
    model = tmp_path / "model.gguf"
    assert cli("model", "hybrid", "--out", model).code == 0
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    assert cli("inspect", model, "--json").json["tokens"] is None
    assert "[runtime] extra" in cli("inspect", model, "--tokenizer", model).error
    assert "[runtime] extra" in cli("inspect", model, "--tokens").error


def test_a_ggufs_vocabulary_is_read_when_it_is_asked_for(cli: Run, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="reading a vocabulary needs the [runtime] extra")
    model = tmp_path / "model.gguf"
    assert cli("model", "hybrid", "--out", model).code == 0
    assert f"tokens unknown: --tokenizer {model} gives them" in cli("inspect", model).out
    counts = {
        cli("inspect", *arguments, "--json").json["tokens"]["count"]
        for arguments in ([model, "--tokenizer", model], [model, "--tokens"], ["hybrid"])
    }
    assert len(counts) == 1


def test_a_broken_tokenizer_beside_a_template_leaves_the_tokens_unknown(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("{{ messages[-1].content }}")
    (tmp_path / "tokenizer.json").write_text("{}")
    found = cli("inspect", tmp_path)
    assert found.code == 0
    assert "tokens unknown: " in found.out


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([{"content": "x"}], "messages[0].role: missing"),
        ([USER, {"role": "user", "content": 7}], "messages[1].content: should be"),
        ({"messages": "x"}, "messages: should be a list"),
    ],
)
def test_a_malformed_conversation_is_named_in_one_line(
    cli: Run, conversation: Run, messages: object, said: str
) -> None:
    assert said in cli("inspect", "chatml", "--messages", conversation(messages)).error


def test_a_template_that_raises_is_quoted_in_one_line(cli: Run, conversation: Run, tmp_path: Path) -> None:
    template = tmp_path / "no.jinja"
    template.write_text("{{ raise_exception('only\nroses\x1b[0m') }}")
    error = cli("inspect", template, "--messages", conversation([USER])).error
    assert error.startswith(f"{template}: ")
    assert "only roses␛[0m" in error


def test_a_special_token_that_a_bare_template_lacks_is_asked_for(cli: Run, conversation: Run, tmp_path: Path) -> None:
    template = tmp_path / "begins.jinja"
    template.write_text("{{ bos_token + messages[0].content }}")
    arguments = ("inspect", template, "--messages", conversation([USER]))
    assert "'bos_token' is undefined (--set bos_token=TEXT gives it)" in cli(*arguments).error
    assert cli(*arguments, "--set", "bos_token=<s>", "--json").json["text"] == "<s>Hello"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("broken.jinja", b"{% if %}", "broken.jinja: "),
        ("latin.jinja", b"\xff", "latin.jinja: not UTF-8"),
        ("cut.gguf", b"GGUF\x03\0\0\0", "cut.gguf: GGUF field header at byte 4 is cut short"),
    ],
)
def test_an_unusable_source_is_named_in_one_line(cli: Run, tmp_path: Path, name: str, data: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert said in cli("inspect", tmp_path / name).error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-", "--messages", "-"), "SOURCE and --messages"),
        (("chatml", "--messages", "-", "--tools", "-"), "--messages and --tools"),
        (("-", "--raw", "-"), "SOURCE and --raw"),
    ],
)
def test_standard_input_is_read_for_one_thing_only(cli: Run, arguments: tuple[str, ...], said: str) -> None:
    assert cli("inspect", *arguments).error == f"{said} cannot both be -: standard input can be read only once"


def test_tools_that_cannot_be_read_are_named_by_their_file(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_bytes(b"[\xff]")
    assert cli("inspect", "chatml", "--tools", tmp_path / "tools.json").error.endswith("tools.json: not UTF-8 (byte 1)")


def test_an_empty_list_of_tools_is_no_wish_for_the_sample_s_own(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text("[]")
    assert "# Tools" not in cli("inspect", "chatml", "--tools", tmp_path / "tools.json").out


def test_an_empty_source_is_refused(cli: Run) -> None:
    assert cli("inspect", "").error == "SOURCE: is empty"


def test_a_missing_messages_file_is_named(cli: Run, tmp_path: Path) -> None:
    assert cli("inspect", "chatml", "--messages", tmp_path / "none.json").error.endswith("No such file or directory")


def test_a_page_that_cannot_be_written_is_named(cli: Run, tmp_path: Path) -> None:
    assert cli("inspect", "chatml", "--html", tmp_path).error == f"{tmp_path}: cannot be written (Is a directory)"


def test_input_without_end_is_read_up_to_a_limit(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanparse.cli.prompt._MAX_INPUT_BYTES", 1 << 20)
    assert cli("inspect", "chatml", "--messages", "-", stdin=b"[" * (1 << 21)).error == "-: larger than 1 MiB"


REPOSITORY = Path(__file__).resolve().parents[3]
PICTURE = ("--messages", "docs/examples/picture.json")


def test_with_a_projector_media_are_counted_exactly(cli: Run) -> None:
    pytest.importorskip("llama_cpp", reason="a projector needs the [runtime] extra")
    tokens = cli("inspect", "hybrid", *PICTURE, "--mmproj", "qwen3vl", "--json").json["tokens"]
    (media,) = tokens["media"]
    assert media.items() >= {"message": 0, "part": 1, "begin": 13, "n_tokens": 78, "n_pos": 13, "exact": True}.items()
    assert (tokens["count"], tokens["exact"]) == (99, True)
    end = tokens["messages"][0]
    assert end["end"] - end["pos_end"] == 78 - 13


def test_without_one_they_are_estimated_and_the_view_says_about(cli: Run) -> None:
    assert "about 39 tokens" in cli("inspect", "hybrid", *PICTURE).out
    (media,) = cli("inspect", "hybrid", *PICTURE, "--json").json["tokens"]["media"]
    assert not media["exact"]
    assert media["rule"].startswith("qwen-vl")


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "https: URLs are not fetched"),
        ({"type": "image"}, "carries no image"),
    ],
)
def test_media_that_are_not_at_hand_leave_the_count_unknown(
    cli: Run, conversation: Callable[[object], Path], part: dict[str, Any], reason: str
) -> None:
    messages = conversation([{"role": "user", "content": [part]}])
    found = cli("inspect", "hybrid", "--messages", messages, "--json")
    assert f"messages[0].content[0]: {reason}" in found.err.replace("\n", " ")
    assert "how many tokens it takes is unknown" in found.err
    assert found.json["tokens"]["media"] is None
    pytest.importorskip("llama_cpp", reason="a projector needs the [runtime] extra")
    refused = cli("inspect", "hybrid", "--messages", messages, "--mmproj", "qwen3vl")
    assert f"messages[0].content[0]: {reason}" in refused.error


def test_broken_media_are_an_error_that_names_the_part(cli: Run, conversation: Callable[[object], Path]) -> None:
    messages = json.loads((REPOSITORY / "docs/examples/picture.json").read_text("utf-8"))
    image = messages[0]["content"][1]["image_url"]
    image["url"] = image["url"][:-200]
    found = cli("inspect", "hybrid", "--messages", conversation(messages))
    assert "messages[0].content[1]: a broken image file" in found.error


def test_a_projector_without_its_model_is_an_error(cli: Run) -> None:
    pytest.importorskip("llama_cpp", reason="a projector needs the [runtime] extra")
    assert (
        "no-such-file.gguf: no such file" in cli("inspect", "hybrid", *PICTURE, "--mmproj", "no-such-file.gguf").error
    )
    without_model = cli("inspect", "templates/chatml.jinja", *PICTURE, "--mmproj", "qwen3vl")
    assert "--mmproj qwen3vl: no tokenizer given (--tokenizer)" in without_model.error


def test_the_json_of_a_reason_keeps_its_kind_and_adds_what_else_is_known() -> None:
    span = MessageSpan(0, "user", (), (), reason=Reason("origin-lost", "messages[0].content", "format"))
    told = message_json(span)
    assert told["reason"] == "origin-lost"
    assert told["reason_detail"] == {"field": "messages[0].content", "operation": "format"}
    told = message_json(replace(span, reason=Reason("owner-unclear")))
    assert told["reason"] == "owner-unclear"
    assert "reason_detail" not in told


def test_why_names_the_rule_of_each_stretch_of_the_template_s_own_text(cli: Run) -> None:
    found = cli(*CHATML, "--why", "--json").json
    stretches = found["template_text"]
    assert {stretch["rule"] for stretch in stretches} <= {"written-for", "first-header", "outside", "generation-prompt"}
    assert stretches[-1]["owner"] == "generation prompt"
    assert found["text"][stretches[0]["start"] : stretches[0]["end"]].startswith("<|im_start|>")
    assert "written-for" in cli(*CHATML, "--why").out


def test_why_asks_for_a_template(cli: Run) -> None:
    assert "--why" in cli("inspect", "chatml", "--raw", "-", "--why").error
