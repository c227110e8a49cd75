"""TRL: a real `GRPOTrainer.train()` on a tiny model, whose sampled tokens are replaced by recorded replies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mage_envs.trainer.backends.tiny import tiny_model
from mage_envs.wrappers.adapters.trl import columns, dataset, environment
from tests.interop.recorded import Row, check_record, digest, record_rows

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900), pytest.mark.filterwarnings("default")]

PANEL = "kuhn-paper-16"
MEMBERS = 2


def byte_tokenizer() -> Any:
    """Return a tokenizer of single bytes with the chat template of Qwen3, which TRL can parse."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates/qwen3.jinja").read_text()
    return tokenizer


class ScriptedTrainer(trl.GRPOTrainer):
    """The real trainer. Only the sampling is replaced: each rollout calls the tool with its next reply."""

    rows: list[Row]
    played_rows: list[tuple[Row, float]]

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **options: Any) -> Any:
        texts = [self._next(self.processing_class.decode(ids)) for ids in prompt_ids]
        ids = [[*self.processing_class.encode(text), self.processing_class.eos_token_id] for text in texts]
        return ids, [[0.0] * len(ids_of_reply) for ids_of_reply in ids]

    def _next(self, text: str) -> str:
        """Return the call of the tool that follows the rendered chat `text`."""
        num_answers = text.count('{"name": "answer", "arguments"')
        row = next(
            row
            for row in self.rows
            if row.prompts[0] in text and all(prompt_text in text for prompt_text in row.prompts[:num_answers])
        )
        if num_answers == len(row.replies):
            return "Done."
        call = {"name": "answer", "arguments": {"reply": row.replies[num_answers]}}
        return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def test_a_training_run_plays_the_rows_of_a_panel(tmp_path: Path) -> None:
    rows = record_rows(tmp_path, PANEL, "scripted:first", context="conversation", memory="both", num_episodes=2)
    environments: list[Any] = []
    transcripts: dict[int, list[tuple[str, list[str], list[str]]]] = {}
    factory = environment(PANEL, env_kwargs={"num_episodes": 2}, out=str(tmp_path / "record"))

    class Observed(factory):  # type: ignore[misc, valid-type]
        """The adapter's class, with a log of everything that TRL passes."""

        def __init__(self) -> None:
            super().__init__()
            environments.append(self)
            transcripts[id(self)] = []

        def reset(self, **row: Any) -> str:
            text: str = super().reset(**row)
            transcripts[id(self)].append(
                (str(row["seed"]) + str(row["opponent"]) + str(row["seat"]), [text.strip()], [])
            )
            return text

        def answer(self, reply: str) -> str:
            """Send an answer.

            Args:
                reply: The answer.

            Returns:
                The next message.
            """
            text: str = super().answer(reply)
            transcripts[id(self)][-1][1].append(text)
            transcripts[id(self)][-1][2].append(reply)
            return text

    tokenizer = byte_tokenizer()
    model = tiny_model(len(tokenizer), hidden=32, heads=2, max_positions=16_384)
    config = trl.GRPOConfig(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=MEMBERS,
        num_generations=MEMBERS,
        max_completion_length=12_000,
        max_tool_calling_iterations=20,
        max_steps=2,
        logging_steps=1,
        use_cpu=True,
        report_to=[],
        shuffle_dataset=False,
    )
    trainer = ScriptedTrainer(
        model=model,
        args=config,
        processing_class=tokenizer,
        train_dataset=dataset(PANEL),
        environment_factory=Observed,
        reward_funcs=[columns],
    )
    trainer.rows = rows
    trainer.train()
    tasks = dataset(PANEL)
    assert len(environments) == MEMBERS
    for log in transcripts.values():
        for number, (key, prompts, replies) in enumerate(log):
            row, task = rows[number], tasks[number]
            assert key == f"{task['seed']}{task['opponent']}{task['seat']}"
            # The last message needs no answer.
            played_row = Row(prompts[:-1], replies, row.rewards, [])
            assert digest([played_row]) == digest([row._replace(secrets=[])])
    logged = [entry["rewards/Observed/mean"] for entry in trainer.state.log_history if "rewards/Observed/mean" in entry]
    assert logged == [sum(row.rewards) for row in rows[:2]]
    # Both members of a group play the same row, each in a record of its own.
    for record in (tmp_path / "record", tmp_path / "record-pass-2"):
        check_record(tmp_path, record, 2)
    regrets = [entry["mage/regret"] for entry in trainer.state.log_history if "mage/regret" in entry]
    assert len(regrets) == 2
    assert all(regret > -1e-9 for regret in regrets)
    assert {"mage/level", "mage/best"} <= trainer.state.log_history[0].keys()
    assert torch.isfinite(torch.tensor(trainer.state.log_history[0]["loss"]))
