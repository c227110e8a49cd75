"""The hops of docs/tour.md: the functions on the way of an answer, with their explanations and the values to show."""

from __future__ import annotations

from dev.tour.recorder import Hop
from mage_envs.env import TextGameEnv
from mage_envs.games.table_game import TableState
from mage_envs.hand import Hand, Seat
from mage_envs.opponents.tabular import RulePolicy
from mage_envs.text.parser import parse_reply
from mage_envs.text.plain import Plain
from mage_envs.trainer.method.advantages import gigpo
from mage_envs.trainer.method.batch import build_rows
from mage_envs.trainer.method.loss import policy_loss
from mage_envs.trainer.method.returns import step_returns
from mage_envs.wrappers.episode_buffer import EpisodeBuffer
from mage_envs.wrappers.meta_episode import MetaEpisode
from mage_envs.wrappers.model_calls import MemoryCalls
from mage_envs.wrappers.rollout.playing import MetaEpisodeRollout

GYMNASIUM_STEP = ("observation", "reward", "terminated", "truncated", "info")

ANSWER = (
    Hop(
        MetaEpisode.step,
        "The wrapper receives the model's whole reply. If a request of the memory waits for an answer, the reply goes "
        "to the memory. Otherwise it is an action, as here.",
        ("action", "self._calls.pending"),
        ("reward", "terminated", "info['phase']"),
        names=GYMNASIUM_STEP,
    ),
    Hop(
        parse_reply,
        "There is one parser. It returns the text in the last tag after the reasoning, and never guesses from prose.",
        ("reply", "tag"),
        ("returned.thought", "returned.answer"),
    ),
    Hop(
        TextGameEnv.step,
        "The environment of one episode receives the plain action. Its reward is in the game's unit, here in chips. "
        "`info` names the opponent at the end of the episode.",
        ("action",),
        ("observation", "reward", "terminated", "info['success']", "info['private']"),
        names=GYMNASIUM_STEP,
    ),
    Hop(
        Hand.answer,
        "Every hand is played in this class. It plays the answer, then the opponents' moves, until the learner must "
        "answer again or the hand is over. It returns None, or the reason if the action is illegal.",
        ("action", "self.state.observation(0)"),
        ("returned", "self.over", "self.state.returns"),
    ),
    Hop(
        TableState.move,
        "A state is a value: a move returns another state. `State.after` of a small game looks it up here. `keys` has "
        "the knowledge of each player: its card and the betting. The first call is the learner's move. The second is "
        "the opponent's.",
        ("action", "self.keys"),
        ("said", "state.keys"),
        names=("said", "state"),
        calls=2,
    ),
    Hop(
        Seat.move,
        "The opponent's seat returns its move. If the policy declares `follows_information_state`, as this one does, "
        "the seat requests its probabilities once per state and caches them. Any other policy receives `act(turn)` at "
        "each move.",
        ("self.name", "index", "state.legal_actions"),
        ("said",),
        names=("said", "state"),
    ),
    Hop(
        RulePolicy.distribution,
        "The policy receives a `Turn`, which holds everything that the player may know. It never receives the game.",
        ("turn.player", "turn.observation", "turn.legal_actions"),
        ("returned",),
    ),
    Hop(
        EpisodeBuffer.add,
        "Back in the wrapper, the answer becomes a `TurnRecord`. The reward function turns the results of the hands "
        "into the episode reward R_k. The share of this answer is returned.",
        ("record.action", "[result.value for result in results]", "reward.__name__", "planned"),
        ("returned",),
    ),
    Hop(
        EpisodeBuffer.record,
        "The episode is over, so its record is made. Memories and prompts read these records.",
        ("outcome",),
        ("returned.index", "returned.reward", "returned.value", "returned.success", "returned.ended_as"),
    ),
    Hop(
        MemoryCalls.call,
        "The hooks of the memory are called in order. A hook returns None or a request to the model. The default "
        "memory requests a reflection before each episode except the first.",
        ("hook", "is_last"),
        ("returned and returned.kind",),
        calls=3,
    ),
    Hop(
        TextGameEnv.reset,
        "Between the last two hooks the next episode starts. The seed is the same and the index is the next one. So "
        "the opponent stays, the learner changes its seat, and the cards are new.",
        ("seed", "options"),
        ("observation", "info['legal_actions']"),
        names=("observation", "info"),
    ),
    Hop(
        Plain.reflect,
        "The prompt style writes the text of every prompt. This text is the observation that `step` returns.",
        ("view.record.index", "len(view.shown)"),
        ("returned",),
    ),
    Hop(
        MetaEpisode._make_info,
        "Last, `info` is made from facts about the next prompt and results of this answer.",
        ("entries['hand_reward']", "entries['episode_end']"),
        (
            "returned['phase']",
            "returned['episode_index']",
            "returned['answer_tag']",
            "returned['anchor']",
            "returned['action']",
            "returned['episode_return']",
            "returned['success']",
            "[message['role'] for message in returned['messages']]",
        ),
    ),
)
TRAINING = (
    Hop(
        MetaEpisodeRollout.trajectory,
        "The rollout keeps one `Step` per model call and one `EpisodeResult` per episode.",
        ("self.spec.member",),
        (
            "[step.phase for step in returned.steps]",
            "[step.action for step in returned.steps]",
            "[episode.reward for episode in returned.episodes]",
        ),
        calls=2,
    ),
    Hop(
        step_returns,
        "An episode pays its differential reward, R_k less R_{k-1}, plus the return of the next episode times "
        "`gamma_episode`. Its last step has this value as its return. Each earlier step has `gamma_step` times the "
        "return of the step after it. A reflection has the return of the first step of the next episode.",
        ("[episode.reward for episode in trajectory.episodes]", "gamma_step", "gamma_episode"),
        ("returned",),
        calls=2,
    ),
    Hop(
        gigpo,
        "The estimator returns one advantage per step of each member. It is the sum of two parts. The first compares "
        "the members at the same episode, the second at equal observations.",
        ("config.advantage", "config.step_weight"),
        ("returned[0]", "returned[1]"),
    ),
    Hop(
        build_rows,
        "A row is a sequence of tokens for the model. Only the tokens of the replies are trained. Each one has the "
        "advantage of its step.",
        ("len(trajectories)", "merge"),
        (
            "len(returned)",
            "returned[0].length",
            "len(returned[0].targets)",
            "returned[0].advantages[:3]",
        ),
    ),
    Hop(
        policy_loss,
        "The rows are padded to one batch, and the model scores the replies. The loss is a sum over the trained "
        "tokens. The trainer divides it by their number. In the first update every ratio of probabilities is 1.",
        ("batch.ids.shape", "len(batch.advantages)", "terms.policy"),
        ("loss", "loss / len(batch.advantages)"),
        names=("loss", "sums"),
    ),
)
