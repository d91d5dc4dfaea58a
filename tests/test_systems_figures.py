"""Figures from predictions: each over the items that it can be asked of, controls beside it, pairs, cells and contrasts."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from voxgate.bench.systems.figures import block, by_array, contrasts, figures

Row = dict[str, Any]
COUNT = itertools.count()


def row(family: str, target: str, *, right: bool = True, **changes: Any) -> Row:
    """A row as scoring writes it: of a right system, or of one that does the opposite (acts on a mute, mutes the rest)."""
    muted = (target == "mute") == right
    number = next(COUNT)
    values: Row = {
        "id": f"i{number}", "family": family, "variant": "", "pair": f"p{number}", "cell": "", "array": "mono",
        "audio": "a.wav", "target_kind": target, "mute": muted, "tool_acted": not muted and target != "answer",
        "tool_right": right and target == "tool", "params_right": {"a": True} if right and target == "tool" else None,
        "exact": right, "action_right": right, "stray_acts": 0, "false_execution": target == "mute" and not right,
        "false_rejection": target != "mute" and not right, "wrong_act": False, "side": None, "error": None, "notes": [],
        "facts": {}, "said": [], "voice": f"v{number % 3}", "command": f"c{number % 5}",
    }  # fmt: skip
    return values | changes


def mean(figure: Any) -> float:
    return float(figure["mean"])


def test_rates_are_each_over_what_they_are_about() -> None:
    rows = [row("request", "tool"), row("request", "tool", right=False), row("request", "tool"), row("request", "mute")]
    rows += [row("request", "mute", right=False), row("question", "answer"), row("question", "answer", right=False)]
    rows[2] |= {"params_right": {"a": True, "b": False}, "exact": False}
    found = block(rows)["rates"]
    assert mean(found["tool_recall"]) == pytest.approx(2 / 3) and found["tool_recall"]["count"] == 3
    assert mean(found["mute_right"]) == 0.5 and mean(found["mute_rate"]) == pytest.approx(3 / 7)
    assert mean(found["answer_recall"]) == 0.5 and found["balanced"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert mean(found["exact_call"]) == pytest.approx(1 / 3) and mean(found["arguments"]) == 0.75
    assert mean(found["false_execution"]) == pytest.approx(1 / 7) and mean(found["false_tool"]) == 0.5
    assert mean(found["false_rejection"]) == pytest.approx(2 / 5) and found["false_rejection"]["count"] == 5
    assert found["tool_recall"]["low"] <= 2 / 3 <= found["tool_recall"]["high"]
    assert found["action_right"]["clusters"] == [3, 5]


def test_what_there_is_nothing_of_is_left_out() -> None:
    found = block([row("request", "mute")])
    assert (
        not {"tool_recall", "exact_call", "arguments", "answer_recall", "false_rejection", "balanced"}
        & found["rates"].keys()
    )
    assert found.keys() == {"counts", "rates", "requests"}


def test_counts_name_errors_notes_and_what_always_mute_gets() -> None:
    rows = [row("request", "tool", error="timeout", notes=["prose", "cut"]), row("request", "mute", notes=["prose"])]
    found = block(rows)["counts"]
    assert found["errors"] == {"timeout": 1} and found["notes"] == {"prose": 2, "cut": 1}
    assert (found["items"], found["always_mute_right"]) == (2, 1)
    assert mean(block(rows)["rates"]["errors"]) == 0.5


def test_speaker_switch_has_both_controls_and_words_alone_stay_out_of_the_rest() -> None:
    rows = []
    for number in range(4):
        pair = f"s{number}"
        rows.append(row("speaker-switch", "tool", pair=pair, right=number < 3, exact=number < 2))
        rows.append(row("speaker-switch", "mute", pair=pair, right=number < 2, stray_acts=int(number == 0)))
        rows.append(row("speaker-switch", "tool", pair=pair, audio=None, right=number < 1))
    found = block(rows)["speaker_switch"]
    assert {name: mean(figure) for name, figure in found.items()} == {
        "switch_mute": 0.5, "switch_stray": 0.25, "same_speaker_tool": 0.75, "same_speaker_exact": 0.5,
        "same_speaker_mute": 0.25, "text_only_tool": 0.25, "text_only_exact": 0.25, "pair_right": 0.5,
    }  # fmt: skip
    rates = block(rows)["rates"]
    assert rates["action_right"]["count"] == 8 and mean(rates["tool_recall"]) == 0.75
    alone = block([each for each in rows if each["audio"] is None])["rates"]
    assert mean(alone["tool_recall"]) == 0.25


def test_self_talk_counts_pairs_of_which_both_are_right() -> None:
    rows = []
    for number, (talk, twin) in enumerate([(True, True), (True, False), (False, True), (False, False)]):
        pair, variant = f"t{number}", "planning" if number < 2 else "regret"
        rows += [row("self-talk", "mute", pair=pair, variant=variant, right=talk)]
        rows += [row("self-talk", "tool", pair=pair, variant="twin", right=twin)]
    found = block(rows)["self_talk"]
    assert (mean(found["mute"]), mean(found["twin_tool"]), mean(found["both_right"])) == (0.5, 0.5, 0.25)
    assert found["both_right"]["count"] == 4 and mean(found["twin_mute"]) == 0.5
    assert {kind: mean(figure) for kind, figure in found["mute_by_variant"].items()} == {"planning": 1.0, "regret": 0.0}


def test_side_talk_is_right_for_the_assistants_words_alone_and_in_both_orders() -> None:
    labels = [
        ("assistant", True, 0),
        ("assistant", False, 0),
        ("both", True, 1),
        ("bystander", False, 1),
        ("neither", False, 0),
    ]
    rows = [
        row(
            "side-talk",
            "tool",
            pair=f"d{number // 2}",
            variant=f"order-{number % 2}",
            side=label,
            right=right,
            stray_acts=stray,
        )
        for number, (label, right, stray) in enumerate(
            [*labels, ("assistant", True, 0), ("assistant", True, 0), ("assistant", True, 0)]
        )
    ]
    found = block(rows)["side_talk"]
    assert mean(found["right"]) == 0.5 and found["labels"] == {"assistant": 5, "bystander": 1, "both": 1, "neither": 1}
    assert mean(found["right_in_both_orders"]) == 0.25 and found["right_in_both_orders"]["count"] == 4
    assert (
        found["configurations"]["order-0"]["labels"]["both"] == 1
        and mean(found["configurations"]["order-1"]["right"]) == 0.5
    )
    stray = [row("side-talk", "tool", side="assistant", stray_acts=1), row("side-talk", "mute", side="neither")]
    assert mean(block(stray[:1])["side_talk"]["right"]) == 0 and mean(block(stray[1:])["side_talk"]["right"]) == 1


def cue(cell: str, pair: str, target: str, right: bool, **changes: Any) -> Row:
    return row("cue", target, right=right, cell=cell, pair=pair, **{"audio": f"{cell}.wav", **changes})


def test_cells_have_mean_balance_and_worst_of_their_condition() -> None:
    rows = [cue("same/near/0", "a", "tool", True), cue("same/near/0", "b", "tool", False)]
    rows += [cue("other/near/0", pair, "mute", pair == "a") for pair in "abcd"]
    rows += [cue("other/far/0", "a", "mute", True), cue("same/near/0/noise-5", "a", "tool", False)]
    found = block(rows)["cells"]
    assert mean(found["each"]["other/near/0"]["action_right"]) == 0.25
    assert (
        mean(found["each"]["other/near/0"]["tool"]) == 0.75
        and mean(found["each"]["other/near/0"]["false_execution"]) == 0.75
    )
    assert (
        found["each"]["same/near/0"]["target"] == "tool"
        and mean(found["each"]["same/near/0"]["false_rejection"]) == 0.5
    )
    plain = found["conditions"][""]
    assert plain["mean"] == pytest.approx((0.5 + 0.25 + 1) / 3)
    assert plain["balanced"] == pytest.approx((0.5 + (0.25 + 1) / 2) / 2)
    assert plain["worst"] == {"cell": "other/near/0", "action_right": 0.25}
    assert found["conditions"]["noise-5"]["mean"] == 0.0


def test_contrasts_change_one_cue_within_a_pair_and_an_array() -> None:
    rows = []
    for pair, array in itertools.product("ab", ("mono", "stereo")):
        rows += [
            cue("other/near/600", pair, "mute", pair == "a", array=array),
            cue("same/near/600", pair, "tool", True, array=array),
        ]
        rows += [
            cue("same/far/600", pair, "mute", True, array=array),
            cue("same/near/0", pair, "tool", True, array=array),
        ]
        rows += [cue("same/near/600/noise-10", pair, "tool", False, array=array)]
        rows += [cue("same/near/600/noise-5", pair, "tool", False, array=array)]
    rows.append(cue("other/near/600", "c", "mute", False))  # nothing to compare it with
    found = {(one["from"], one["to"]): one for one in contrasts(rows, 0)}
    assert set(found) == {
        ("same/near/600", "other/near/600"),
        ("same/near/600", "same/far/600"),
        ("same/near/0", "same/near/600"),
        ("same/near/600", "same/near/600/noise-10"),
        ("same/near/600", "same/near/600/noise-5"),
    }
    source = found["same/near/600", "other/near/600"]
    assert (source["cue"], mean(source["tool"]), mean(source["mute"]), source["tool"]["count"]) == (
        "source",
        -0.5,
        0.5,
        4,
    )
    distance = found["same/near/600", "same/far/600"]
    assert (distance["cue"], mean(distance["tool"]), mean(distance["mute"])) == ("distance", -1.0, 1.0)
    gap = found["same/near/0", "same/near/600"]
    assert (gap["cue"], mean(gap["tool"])) == ("gap_ms", 0.0)
    assert found["same/near/600", "same/near/600/noise-5"]["cue"] == "condition"


def test_each_condition_is_set_against_its_plain_cell() -> None:
    plain, voice = "other/near/0", {"voice": "v", "command": "c"}
    rows = [cue(plain, pair, "mute", True, **voice) for pair in "ab"]
    for condition in ("at-mouth", "bystander", "noise-10", "noise-5", "both-talk", "loudspeaker"):
        rows += [cue(f"{plain}/{condition}", pair, "mute", pair == "a", **voice) for pair in "ab"]
    rows += [cue("same/far/600", pair, "mute", True) for pair in "ab"]
    rows += [cue("same/far/600/trigger-only-far", pair, "mute", pair == "a") for pair in "ab"]
    rows += [cue(f"{plain}/measured", f"{pair}@measured", "mute", False) for pair in "ab"]
    rows += [cue(f"{plain}/noise-5/measured", f"{pair}@measured", "mute", True) for pair in "ab"]
    found = {(one["from"], one["to"]): one for one in contrasts(rows, 0)}
    for (_, to), one in found.items():
        if to.split("/")[-1] in ("at-mouth", "bystander", "noise-10", "noise-5", "both-talk", "loudspeaker"):
            assert (one["cue"], mean(one["mute"]), mean(one["tool"])) == ("condition", -0.5, 0.5), to
            assert one["mute"]["count"] == 2 and one["mute"]["clusters"] == [1, 1]
    context = found["same/far/600", "same/far/600/trigger-only-far"]
    assert (context["cue"], mean(context["mute"])) == ("context", -0.5)
    room = found[plain, f"{plain}/measured"]
    assert (room["cue"], mean(room["mute"]), room["mute"]["count"]) == ("room", -1.0, 2)
    assert found[f"{plain}/measured", f"{plain}/noise-5/measured"]["cue"] == "condition"
    assert found[f"{plain}/noise-5", f"{plain}/noise-5/measured"]["cue"] == "room"
    assert len(found) == 6 + 1 + 3


def test_two_people_who_ask_for_different_things_are_no_contrast_of_source() -> None:
    context = {"who": "wearer", "role": "context", "text": "soon"}

    def said(text: str, *more: str) -> list[Row]:
        extra = [{"who": "bystander", "role": "talk", "text": each} for each in more]
        return [context, {"who": "", "role": "request", "text": text}, *extra]

    cells = {"same/near/0": said("bin blue"), "same/far/0": said("bin blue"), "other/near/0": said("lay red")}
    rows = [cue(cell, "a", "mute", True, said=words) for cell, words in cells.items()]
    assert [(one["from"], one["to"]) for one in contrasts(rows, 0)] == [("same/near/0", "same/far/0")]
    rows[-1]["said"] = said("bin blue", "the weather")
    assert len(contrasts(rows, 0)) == 2


def test_measured_responses_stand_apart_from_simulated_rooms() -> None:
    rows = []
    for number in range(4):
        for end, right in (("", True), ("@measured", False)):
            pair = f"g{number}{end}"
            for family, target in (
                ("speaker-switch", "mute"),
                ("self-talk", "mute"),
                ("side-talk", "tool"),
                ("request", "tool"),
            ):
                rows.append(row(family, target, right=right, pair=pair, array="glasses-8", side="assistant"))
            cell = "other/near/0" + end.replace("@", "/")
            rows.append(cue(cell, pair, "mute", right, array="glasses-8"))
        rows.append(row("request", "tool", pair=f"m{number}", array="mono"))
    rows.append(row("speaker-switch", "tool", array="text", audio=None))
    found = figures(rows)["arrays"]
    assert list(found) == ["glasses-8", "glasses-8/measured", "mono"] == list(by_array(rows))
    for name, right in (("glasses-8", 1), ("glasses-8/measured", 0)):
        figure = found[name]
        assert mean(figure["speaker_switch"]["switch_mute"]) == mean(figure["self_talk"]["mute"]) == right
        assert mean(figure["side_talk"]["right"]) == mean(figure["requests"]["tool_recall"]) == right
        assert mean(figure["rates"]["action_right"]) == right and figure["counts"]["items"] == 4 * 5 + 1
        assert mean(figure["speaker_switch"]["text_only_tool"]) == 1
    assert list(found["glasses-8"]["cells"]["each"]) == ["other/near/0"]
    (room,) = found["glasses-8"]["contrasts"]
    assert room["cue"] == "room" and mean(room["mute"]) == -1 and "contrasts" not in found["glasses-8/measured"]
    measured = [each for each in rows if each["pair"].endswith("@measured")]
    assert list(by_array(measured)) == ["glasses-8"] and "arrays" not in figures(measured)


def test_cells_that_share_their_sound_are_no_contrast() -> None:
    rows = [cue(f"same/near/0{more}", "a", "tool", True, audio="one.wav") for more in ("", "/at-mouth")]
    assert contrasts(rows, 0) == []
    rows[1]["audio"] = "other.wav"
    (still,) = contrasts(rows, 0)
    assert (still["tool"]["low"], still["tool"]["high"]) == (-1.0, 1.0)  # one pair tells nothing


def test_pairs_of_voices_stand_apart_by_their_makers() -> None:
    within = {"engines": "within", "alike": True, "shared_source": True}
    across = {"engines": "across", "alike": False, "shared_source": False}
    rows = []
    for facts, right in ((within, False), (across, True)):
        rows += [row("speaker-switch", "mute", right=right, facts=facts), row("speaker-switch", "tool", facts=facts)]
        for gap in (0, 600):
            rows.append(cue(f"other/near/{gap}", "a", "mute", right, facts=facts))
            rows.append(cue(f"other/near/{gap}/at-mouth", "a", "mute", gap == 0, facts=facts))
            rows.append(cue(f"same/near/{gap}", "a", "tool", True, facts=facts))
    found = block(rows)["voice_pairs"]
    for kind, right in (
        ("of one engine", 0), ("of one source", 0), ("close to the encoder", 0), ("of two engines", 1), ("of two sources", 1)
    ):  # fmt: skip
        figure = found.pop(kind)
        assert (mean(figure["switch_mute"]), mean(figure["same_speaker_tool"])) == (right, 1)
        assert {name: mean(share) for name, share in figure["cells"].items()} == {
            "other/near": right, "other/near/at-mouth": 0.5,
        }  # fmt: skip
        assert figure["cells"]["other/near"]["count"] == 2
    assert found == {} and "voice_pairs" not in block([row("request", "tool")])


def test_arrays_stand_apart_with_the_words_alone_beside_each() -> None:
    rows = [row("speaker-switch", "tool", array=array, right=array == "mono") for array in ("mono", "stereo")]
    rows.append(row("speaker-switch", "tool", array="", audio=None))
    found = figures(rows)
    assert set(found["arrays"]) == {"mono", "stereo"}
    assert (
        mean(found["arrays"]["mono"]["rates"]["tool_recall"]) == 1 and mean(found["all"]["rates"]["tool_recall"]) == 0.5
    )
    assert mean(found["arrays"]["stereo"]["speaker_switch"]["same_speaker_tool"]) == 0
    assert mean(found["arrays"]["stereo"]["speaker_switch"]["text_only_tool"]) == 1
    assert "arrays" not in figures(rows[:1])


def test_a_pair_on_two_arrays_is_two_pairs() -> None:
    rows = [row("self-talk", "mute", pair="t", array=array, right=True) for array in ("mono", "stereo")]
    rows += [row("self-talk", "tool", pair="t", array=array, right=array == "mono") for array in ("mono", "stereo")]
    assert mean(figures(rows)["all"]["self_talk"]["both_right"]) == 0.5


def test_half_a_pair_is_none() -> None:
    rows = [row("self-talk", "mute"), row("self-talk", "tool", right=False)]
    assert "both_right" not in block(rows)["self_talk"]


def test_the_seed_draws_the_intervals() -> None:
    rows = [row("request", "tool", right=number % 3 > 0, voice=f"v{number % 7}") for number in range(40)]
    assert figures(rows, 1) == figures(rows, 1) != figures(rows, 2)
