import pytest

from mage_envs.text.parser import Reply
from mage_envs.wrappers import Protocol
from tests.wrappers.playing import answer, make, play


def test_course_of_a_meta_episode():
    log = play(make(opponent="kuhn/maniac"))
    phases = [(info_before["episode_index"], info_before["phase"]) for _, info_before, _, _ in log]
    assert phases[0] == (0, "play")
    for k in (1, 2):
        assert phases.count((k, "reflect")) == 1
        assert phases.index((k, "reflect")) < phases.index((k, "play"))
    ends = [(reward, info_after) for _, _, reward, info_after in log if info_after["episode_end"]]
    assert [reward for reward, _ in ends] == [info_after["episode_return"] for _, info_after in ends]
    assert all(reward == 0 for _, _, reward, info_after in log if not info_after["episode_end"])
    assert all(reward == 5 * info_after["episode_value"] for reward, info_after in ends)
    assert "opponent" not in log[0][3]
    assert log[-1][3]["private"]["opponent"] == "kuhn/maniac"


def test_the_opponent_is_never_named_in_a_prompt():
    for memory in ("reflection", "history", "both", "none"):
        for prompt, info_before, _, _ in play(make(opponent="kuhn/maniac", memory=memory)):
            assert "maniac" not in prompt
            assert "opponent" not in info_before


def test_deals_are_fresh_under_adaptive_and_replayed_under_paper():
    def cards(**kwargs):
        env = make(opponent="kuhn/passive", seat="first", memory="none", **kwargs)
        return [
            tuple(
                info_before["anchor"][11]
                for _, info_before, _, _ in play(env, 0, seed)
                if info_before["phase"] == "play"
            )
            for seed in range(30)
        ]

    assert any(len(set(hand)) > 1 for hand in cards())
    assert all(len(set(hand)) == 1 for hand in cards(deal="replay"))
    never_stops = Protocol(deal="replay", reward="released")
    assert all(len(set(hand)) == 1 for hand in cards(protocol=never_stops))


def test_seats_alternate_over_the_hands_of_the_meta_episode_or_stay():
    def seats(**kwargs):
        env = make(opponent="uniform", memory="none", **kwargs)
        play(env, options={"seat": 0})
        return [hand.seat for record in env.records for hand in record.hands]

    assert seats() == [0, 1, 0]
    assert seats(hands_per_episode=3) == [0, 1, 0, 1, 0, 1, 0, 1, 0]
    assert seats(seat="fixed", hands_per_episode=2) == [0] * 6


def test_members_of_a_group_meet_the_same_deals_for_any_actions():
    env = make(opponent="kuhn/soft-station", hands_per_episode=2, memory="none", on_invalid="forfeit")
    timid = {(b["episode_index"], b["hand"]): b["anchor"][:26] for _, b, _, _ in play(env, 0, seed=4)}
    bold = {(b["episode_index"], b["hand"]): b["anchor"][:26] for _, b, _, _ in play(env, 1, seed=4)}
    assert timid == bold


def test_paper_stops_at_the_first_success():
    env = make(opponent="kuhn/passive", protocol="paper")
    won = [seed for seed in range(40) if play(env, 1, seed) and env.records[0].success]
    assert len(won) > 10
    for seed in won:
        play(env, 1, seed)
        assert len(env.records) == 1
    play(make(opponent="kuhn/passive"), 1, won[0])


def test_rewards_of_the_protocols():
    for protocol, timeout in (("adaptive", -10.0), ("paper", 0.0)):
        env = make(protocol=protocol, max_turns=1, num_episodes=1, hands_per_episode=1)
        env.reset(seed=0)
        _, reward, terminated, _, info = env.step("no tag")
        assert (reward, terminated, info["timeout"], info["success"]) == (timeout, True, True, False)
    env = make("TicTacToe", protocol="adaptive", max_turns=1, num_episodes=1)
    env.reset(seed=0)
    assert env.step("")[1] == -10.0


def test_timeout_counts_the_running_and_every_unplayed_hand():
    env = make(max_turns=1, num_episodes=1, hands_per_episode=4)
    env.reset(seed=0)
    _, reward, _, _, info = env.step("")
    assert (reward, info["episode_value"]) == (-10.0, -8.0)
    assert info["hand_reward"] == -10.0


def test_hand_rewards_add_up_to_the_episode():
    log = play(make(opponent="uniform", hands_per_episode=3), choose=1)
    for k in range(3):
        shares = [
            info_after["hand_reward"] for _, info_before, _, info_after in log if info_before["episode_index"] == k
        ]
        total = next(
            info_after["episode_return"]
            for _, b, _, info_after in log
            if info_after["episode_end"] and b["episode_index"] == k
        )
        assert sum(shares) == pytest.approx(total)


def test_penalties_and_reasons():
    env = make(opponent="kuhn/nash")
    env.reset(seed=0)
    half = Reply("<action>nothing</action>", tokens=50, limit=100)
    assert [env.step(half)[4][key] for key in ("invalid_reason", "penalty")] == ["invalid", 0.5]
    env.reset(seed=0)
    cut = Reply("<action>check</action>", tokens=100, limit=100, truncated=True)
    info = env.step(cut)[4]
    assert (info["invalid_reason"], info["penalty"]) == ("length", 2.5)
    env.reset(seed=0)
    long = Reply(f"<action>{env.env.hand.state.legal_actions[0]}</action>", tokens=75, limit=100)
    info = env.step(long)[4]
    assert (info["invalid_reason"], info["penalty"]) == (None, 1.0)
    env.reset(seed=0)
    info = env.step(Reply("", overflow=True))[4]
    assert (info["invalid_reason"], info["penalty"], info["timeout"]) == ("overflow", 0.0, True)


def test_memory_modes_show_what_they_say():
    def last_prompt(memory):
        log = play(make(opponent="kuhn/maniac", memory=memory))
        return [prompt for prompt, info_before, _, _ in log if info_before["phase"] == "play"][-1]

    reflection, history, with_both, none = map(last_prompt, ("reflection", "history", "both", "none"))
    assert reflection.count("plan") == 2
    assert "It ended with" not in reflection
    assert history.count("It ended with") == 2
    assert "Your remark" not in history
    assert with_both.count("It ended with") == with_both.count("Your remark") == 2
    assert "earlier episodes" not in none


def test_reflections_are_cut_and_malformed_ones_forgotten():
    env = make(opponent="kuhn/maniac", seat="first")
    env.reset(seed=0)
    assert env.step("<action>bet</action>")[4]["phase"] == "reflect"
    observation, reward, terminated, _, info = env.step("no tag at all")
    assert (reward, terminated, info["invalid_reason"], info["phase"]) == (0.0, False, "invalid", "play")
    assert "earlier episodes" not in observation
    env.step("<action>bet</action>")
    observation, *_ = env.step(f"<remark>{'x' * 5000}</remark>")
    assert observation.count("x" * 2000) == 1
    assert "x" * 2001 not in observation


def test_conversation_extends_the_chat_and_starts_afresh_where_the_memory_says():
    for memory, chats in (("history", 1), ("both", 1), ("reflection", 3), ("none", 3)):
        env = make(opponent="kuhn/maniac", context="conversation", memory=memory)
        observation, info = env.reset(seed=2)
        fresh, terminated = 1, False
        while not terminated:
            assert info["messages"][-1] == {"role": "user", "content": observation}
            messages_before = info["messages"]
            observation, _, terminated, _, info = env.step(answer(env, info))
            if terminated:
                break
            if info["fresh_chat"]:
                fresh += 1
                assert len(info["messages"]) == 1
            else:
                assert info["messages"][: len(messages_before)] == messages_before
                assert [m["role"] for m in info["messages"][len(messages_before) :]] == ["assistant", "user"]
        assert fresh == chats


def test_in_a_conversation_the_observation_is_the_new_text():
    env = make(opponent="kuhn/maniac", context="conversation", memory="both")
    log = play(env)
    text = "\n".join(text_shown for text_shown, *_ in log)
    assert text.count(env.env_metadata.spec.rules) == 1
    assert text.count("It ended with") == 0
    assert all("# Task" not in text_shown for text_shown, *_ in log[1:])


def shorten(env):
    """Return True if the environment can shorten the prompt, and the shorter prompt."""
    observation, reward, over, _, info = env.step(Reply("", overflow=True))
    assert info.get("shortened", False) is not over
    assert reward == 0.0 or over
    return not over, observation, info


def test_a_prompt_that_is_too_long_loses_the_oldest_first_and_then_the_episode():
    env = make(opponent="kuhn/nash", memory="both", max_turns=6)
    observation, info = env.reset(seed=0)
    while not (info["episode_index"] == 2 and info["phase"] == "play"):
        observation, *_, info = env.step(answer(env, info))
    env.step("nonsense")
    observation, *_ = env.step("nonsense")
    prompts = [observation]
    while True:
        shorter, observation, info = shorten(env)
        if not shorter:
            break
        assert (info["penalty"], info["invalid_reason"], info["phase"]) == (0.0, None, "play")
        prompts.append(observation)
        assert len(prompts) < 40
    assert [len(text) for text in prompts] == sorted(map(len, prompts), reverse=True)
    assert len(prompts[-1]) < 0.7 * len(prompts[0])
    assert "Your remark" not in prompts[-1]
    assert "Turn 1" not in prompts[-1]
    assert "# Now" in prompts[-1]
    assert (info["invalid_reason"], info["timeout"], info["episode_return"]) == ("overflow", True, -10.0)


def test_a_conversation_that_is_too_long_keeps_the_rules_and_loses_the_oldest_turns():
    env = make(opponent="kuhn/maniac", context="conversation", memory="history", seat="first", num_episodes=4)
    env.reset(seed=0)
    for number in range(3):
        observation, *_, info = env.step(f"Reply {number}: <action>bet</action>")
    messages = info["messages"]
    assert len(messages) == 7
    for indices_left in ([0, 1, 4, 5, 6], [0, 1, 6]):
        shorter, last_text, info = shorten(env)
        assert (shorter, last_text, info["fresh_chat"]) == (True, observation, True)
        assert info["messages"] == [messages[index] for index in indices_left]
        assert env.env_metadata.spec.rules in info["messages"][0]["content"]
    assert shorten(env)[0] is False


class Notes:
    """A user's own memory: asks before and after every episode, keeps the newest remark."""

    carries_transcript = False

    def __init__(self):
        self.log = []

    def begin(self):
        self.log, self.kept = [], ""

    def before_episode(self, episode, view):
        self.log.append(("before", episode, len(view.records)))
        return f"Make a plan for episode {episode}."

    def after_episode(self, view, last):
        if last:
            return None
        self.log.append(("after", len(view.records)))
        return "What was that?"

    def on_reflection(self, text, view):
        self.log.append(("said", text))
        self.kept = text

    def render(self, view):
        return self.kept

    def shorten(self):
        return False


def test_memory_can_be_replaced():
    notes = Notes()
    env = make(opponent="kuhn/maniac", memory=notes, num_episodes=2, seat="first")
    observation, info = env.reset(seed=0)
    assert (observation, info["phase"], info["episode_index"]) == ("Make a plan for episode 0.", "reflect", 0)
    observation, *_ = env.step("<remark>be bold</remark>")
    assert "be bold" in observation
    observation, *_ = env.step("<action>bet</action>")
    assert observation == "What was that?"
    observation, *_, info = env.step("<remark>fine</remark>")
    assert (observation, info["episode_index"]) == ("Make a plan for episode 1.", 1)
    env.step("<remark>again</remark>")
    assert env.step("<action>bet</action>")[2]
    assert notes.log == [
        ("before", 0, 0),
        ("said", "be bold"),
        ("after", 1),
        ("said", "fine"),
        ("before", 1, 1),
        ("said", "again"),
    ]
