"""The opponent `llm:model@url` in games, rollouts and `mage eval`."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401
from mage_envs import OpponentFailure
from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.suites.panels import panel
from mage_envs.cli.program import main
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.tictactoe import TicTacToe
from mage_envs.match import play_match
from mage_envs.opponents import LanguageModelPolicy, list_forms, make_opponent
from mage_envs.opponents.llm import EndpointGenerator, shared_endpoints
from tests.opponents.dealing import check_copies
from tests.opponents.llm.server import Server, says, silence, status

KUHN = KuhnPoker()
META = "mage/KuhnPoker-Meta-v0"


def policy_of(name: str) -> tuple[LanguageModelPolicy, EndpointGenerator]:
    policy = make_opponent(name, KUHN)
    assert isinstance(policy, LanguageModelPolicy)
    assert isinstance(policy.generator, EndpointGenerator)
    return policy, policy.generator


def play(name: str, seeds: range) -> list[Any]:
    """Everything that the environment shows in one meta-episode per seed, against a learner that takes turns."""
    env, transcript = gym.make(META, opponent=name, num_episodes=2, memory="history"), []
    for seed in seeds:
        observation, info = env.reset(seed=seed)
        terminated = False
        while not terminated:
            transcript.append((observation, info["legal_actions"]))
            action = info["legal_actions"][len(transcript) % 2]
            observation, reward, terminated, _, info = env.step(f"<action>{action}</action>")
            transcript.append(reward)
        transcript.append((observation, info["private"]["opponent"]))
    return transcript


@pytest.mark.parametrize("model", ["tiny", "tiny-guided"])
def test_a_game_is_played_and_replayed_without_the_server(
    server: Server, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"llm:{model}@{server.url},max_tokens=4,seed=off"
    games = play(name, range(6))
    num_requests = len(server.bodies)
    assert num_requests >= 12, "two hands of each meta-episode, at least one turn each"
    assert all(
        re.fullmatch(rf"llm:{model},max_tokens=4,seed=off", transcript[1])
        for transcript in games
        if "llm:" in str(transcript)
    )
    assert all("Legal actions:" in body["messages"][0]["content"] for body in server.bodies)
    server.stop()
    fresh = f"{name},attempts=1"  # another generator, the same requests
    assert play(fresh, range(6)) == games
    endpoint = policy_of(fresh)[1]
    assert (endpoint.budget.calls, len(server.bodies)) == (0, num_requests)
    assert 0 < endpoint.cached <= num_requests
    with pytest.raises(OpponentFailure, match=r"^Opponent 'llm:.* failed in KuhnPoker: .*refused: nothing listens at "):
        play(fresh, range(90, 99))


def test_what_the_model_says_is_played(server: Server) -> None:
    policy, endpoint = policy_of(f"llm:tiny-guided@{server.url},max_tokens=4,cache=off")
    result = play_match(KuhnPoker(), [policy, make_opponent("kuhn/maniac", KUHN)], np.random.default_rng(1), 12)
    assert policy.invalid == policy.given_up == 0
    assert policy.turns == len(server.bodies) == endpoint.budget.calls
    assert len(set(result.returns[:, 0])) > 1
    assert len({body["seed"] for body in server.bodies}) == policy.turns


def test_copies_in_the_middle_of_a_hand_continue_alike(server: Server) -> None:
    policy, endpoint = policy_of(f"llm:tiny-guided@{server.url},max_tokens=4")
    check_copies(KUHN, policy)
    assert pickle.loads(pickle.dumps(policy)).generator is endpoint


def test_any_game_will_do(server: Server) -> None:
    policy = make_opponent(f"llm:tiny-guided@{server.url},max_tokens=2", TicTacToe())
    result = play_match(TicTacToe(), [policy, make_opponent("uniform", TicTacToe())], np.random.default_rng(1), 2)
    assert result.returns.shape == (2, 2)
    assert len(server.bodies) >= 4


def test_one_endpoint_and_one_budget_per_process(server: Server) -> None:
    name = f"llm:tiny-guided@{server.url},max_tokens=2,max_calls=3"
    (first_policy, endpoint), (second_policy, same) = policy_of(name), policy_of(name)
    assert endpoint is same
    assert first_policy is not second_policy
    with pytest.raises(OpponentFailure, match="budget: all 3 calls are spent"):
        play(name, range(9))
    assert len(server.bodies) == 3
    assert endpoint.failures == {"budget": 1}


def test_a_failing_model_is_a_counted_failure_of_the_rollout(server: Server) -> None:
    name = f"llm:tiny-guided@{server.url},max_tokens=2,attempts=1"
    server.troubles = [status(503, "busy")] * 3  # both meta-episodes, and the second try of the first
    first_episode, second_episode = evaluate(make_agent("scripted:first"), panel(META, [name], 1, 0), batch=1)
    assert first_episode.failure is not None
    assert str(first_episode.failure).startswith("opponent")
    assert "http 503: busy" in str(first_episode.failure)
    assert second_episode.failure is None
    assert len(second_episode.episodes) == 3


def test_a_silent_model_ends_in_a_failure(server: Server) -> None:
    server.troubles = [silence] * 9
    name = f"llm:tiny-guided@{server.url},deadline=0.5,attempts=1"
    with pytest.raises(OpponentFailure, match="could not be asked: timeout: no answer within 0.5 s"):
        play(name, range(3))
    endpoint = policy_of(name)[1]
    assert endpoint.budget.calls == 1
    assert endpoint.failures == {"timeout": 1}


def test_an_answer_without_text_is_not_an_invalid_move(server: Server) -> None:
    policy, _ = policy_of(f"llm:tiny-guided@{server.url},max_tokens=4")
    server.troubles = [says({"content": None, "refusal": "no"}), says({"content": ""}), says({"content": "?"})]
    play_match(KUHN, [policy, make_opponent("kuhn/rock", KUHN)], np.random.default_rng(1), 1)
    assert (policy.no_text, policy.invalid, policy.given_up) == (2, 1, 1)
    assert [call.get("no_text") for call in policy.model_calls()][:3] == ["refusal", "empty", None]


def test_mage_bench_evaluates_a_model(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    agent = f"llm:tiny-guided@{server.url},max_tokens=2"
    arguments = ["eval", agent, "--env", META, "--opponents", "kuhn/rock", "--rows", "2"]
    assert main(arguments) == 0
    table = capfd.readouterr().out
    title, setting, *_ = table.splitlines()
    assert title == f"llm:tiny-guided,max_tokens=2 in {META}"
    assert setting.startswith("seed 0, 4 meta-episodes, sha256 ")
    num_requests = len(server.bodies)
    assert num_requests >= 12
    assert any("<remark>" in body["messages"][0]["content"] for body in server.bodies), "it reflects too"
    server.stop()
    assert main(arguments) == 0
    timed = re.compile(r"\d+\.\d\d(?=\n)")  # seconds end their rows
    assert timed.sub("-", capfd.readouterr().out) == timed.sub("-", table)
    assert len(server.bodies) == num_requests
    assert main([*arguments, "--seed", "1"]) == 2
    assert "refused: nothing listens at the server's address" in capfd.readouterr().err


def test_mage_bench_seats_a_model_as_opponent(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    name = f"llm:tiny-guided@{server.url},max_tokens=2"
    assert main(["eval", "policy:kuhn/nash", "--env", META, "--opponents", f"{name};", "--rows", "2", "--wide"]) == 0
    table = capfd.readouterr().out
    assert "llm:tiny-guided,max_tokens=2" in table
    assert "127.0.0.1" not in table
    prompts = [body["messages"][0]["content"] for body in server.bodies]
    assert all(re.search(r"# Now\nYour turn\. Try [123] of 3\.\n", text) for text in prompts), "the style plain"


@pytest.mark.parametrize(("style", "says"), [("plain", "You have 3 tries per turn."), ("neutral", "Win as many units")])
def test_the_style_of_an_opponent_is_an_option(server: Server, style: str, says: str) -> None:
    name = f"llm:tiny-guided@{server.url},max_tokens=4,cache=off,style={style}"
    policy, endpoint = policy_of(name)
    play_match(KUHN, [policy, make_opponent("kuhn/rock", KUHN)], np.random.default_rng(1), 4)
    assert all(says in body["messages"][0]["content"] for body in server.bodies)
    assert (policy.name, policy.given_up) == (f"tiny-guided,max_tokens=4,style={style}", 0)
    assert endpoint is policy_of(name.replace(f",style={style}", ""))[1], "one endpoint and one budget for all styles"
    with pytest.raises(ValueError, match="style='prosa' is unknown"):
        make_opponent(f"llm:x@{URL},style=prosa", KUHN)
    with pytest.raises(ValueError, match="style is an option of opponents. Use --style for an agent"):
        make_agent(f"llm:x@{URL},style=paper")


# -- names -----------------------------------------------------------------------------------------------------


def test_options_reach_the_request(server: Server) -> None:
    name = f"llm:a/b:4b@2024@{server.url},temperature=0.5,top_p=0.9,max_completion_tokens=7,thinking=off,"
    name += "reasoning_effort=low,seed=off,cache=off,attempts=1"
    policy, _ = policy_of(name)
    with pytest.raises(RuntimeError, match="http 404: The model `a/b:4b@2024` does not exist."):
        play_match(KuhnPoker(), [policy, policy], np.random.default_rng(1), 1)
    [body] = server.bodies
    del body["messages"]
    assert body == {
        "model": "a/b:4b@2024",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_completion_tokens": 7,
        "chat_template_kwargs": {"enable_thinking": False},
        "reasoning_effort": "low",
    }


URL = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("llm", "needs endpoint"),
        ("llm:", "has an empty argument"),
        ("llm:qwen3", "'llm:qwen3' must have the form llm:model@url"),
        (f"llm:@{URL}", "must have the form llm:model@url"),
        ("llm:qwen3@localhost:8000", "must have the form llm:model@url"),
        (
            f"llm:x@{URL},temprature=1",
            r"'llm:x': there is no option 'temprature'\. Did you mean 'temperature'\? Options: temper",
        ),
        (f"llm:x@{URL},greedy", "there is no option 'greedy'"),
        (f"llm:x@{URL},", "'llm:x' has an empty argument"),
        (f"llm:x@{URL},temperature=hot", "temperature must be a number, got 'hot'"),
        (f"llm:x@{URL},deadline=nan", "deadline must be a number, got 'nan'"),
        (f"llm:x@{URL},max_tokens=1.5", "max_tokens must be a whole number, got '1.5'"),
        (f"llm:x@{URL},cache=no", "cache must be true or false, got 'no'"),
        (f"llm:x@{URL},attempts=1,attempts=2", "attempts is given twice"),
        (f"llm:x@{URL},max_tokens=1,max_completion_tokens=2", "are the same limit. Set one"),
        (f"llm:x@{URL},max_calls=-1", "max_calls must be 0 or more"),
        (f"llm:x@{URL},attempts=0", "attempts >= 1"),
        ("llm:x@http://me:pw@host/v1", "at host must not contain a user"),
    ],
)
def test_names_that_say_too_little_or_too_much(name: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as exc_info:
        make_opponent(name, KUHN)
    assert "\n" not in str(exc_info.value)
    if name not in ("llm", "llm:"):
        with pytest.raises(ValueError, match=says):
            make_agent(name)


def test_an_opponent_is_one_server_and_a_model_may_have_several() -> None:
    with pytest.raises(ValueError, match="must have the form llm:model@url, as in llm:qwen3"):
        shared_endpoints("")
    with pytest.raises(ValueError, match=r"^Opponent 'llm:x' must name one URL, got 2\.$"):
        make_opponent(f"llm:x@{URL}@http://127.0.0.1:8/v1,cache=off", KUHN)
    assert [endpoint.base_url for endpoint in shared_endpoints(f"x@{URL}@http://127.0.0.1:8/v1@{URL}")] == [
        URL,
        "http://127.0.0.1:8/v1",
    ]


def test_it_is_listed_by_its_form() -> None:
    assert "llm:model@url" in list_forms("KuhnPoker")


@pytest.mark.parametrize("case", ["import", "make"])
def test_the_client_loads_when_it_is_needed(case: str) -> None:
    script = {
        "import": """
import sys, mage_envs, opponents
print(sorted({"httpx2", "sqlite3", "mage_envs.opponents.llm.endpoint"} & set(sys.modules)))
""",
        "make": f"""
import sys
sys.modules["httpx2"] = None
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.opponents import make_opponent
try:
    make_opponent("llm:x@{URL}", KuhnPoker())
except ImportError as error:
    print(error)
""",
    }[case]
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    expected = {
        "import": "[]",
        "make": 'opponents/llm requires httpx2. Install it with: pip install "mage-envs[endpoints]"',
    }
    assert out.strip() == expected[case]


def test_the_regret_of_an_endpoint_is_that_of_its_sampled_answers(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = f"llm:tiny-guided@{server.url},max_tokens=2,cache=off"
    arguments = ["--env", META, "--game-option", "num_episodes=1", "--opponents", "pool:kuhn/paper", "--rows", "1"]
    assert main(["regret", agent, *arguments]) == 0
    assert "6 meta-episodes, judged by what it played" in capsys.readouterr().out
    assert server.bodies
    assert main(["regret", agent, *arguments, "--json"]) == 0
    [episode] = json.loads(capsys.readouterr().out)["episodes"]
    assert episode["available"] == pytest.approx(0.125)  # the blind value: nothing has been seen
    assert episode["adjusted"]["mean"] == pytest.approx(0.125 - episode["regret"]["mean"])
    assert episode["regret"]["mean"] > 0
