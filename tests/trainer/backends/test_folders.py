"""Folders of models as they are found: adapters, other names of positions, classifiers, wrong tokenizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.cli.program import main
from mage_envs.registry import make_game
from mage_envs.text.generation import Message, Prompt
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.tiny import byte_tokenizer, general_tiny, save_tiny, tiny_model
from mage_envs.trainer.backends.weights import base_of

LIBRARY: Any = transformers
TOKENIZER = byte_tokenizer()
ADAPTER = "adapter_config.json"


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """A LoRA adapter of the tiny model in `tmp_path/base`, without a tokenizer."""
    general_tiny(tmp_path / "base")
    lora = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM", init_lora_weights=False)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(tmp_path / "base"), lora)
    model.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def set_base(folder: Path, name: str) -> None:
    settings = json.loads((folder / ADAPTER).read_text())
    (folder / ADAPTER).write_text(json.dumps(settings | {"base_model_name_or_path": name}))


def answer(folder: Path) -> tuple[int, ...]:
    """Return the ids of a reply of an agent."""
    generator = make_agent(f"hf:{folder},max_tokens=24").generator(make_game("KuhnPoker"))
    [completion] = generator.generate([Prompt((Message("user", "Bet?"),), seed=(1,))])
    return completion.ids


def test_an_adapter_is_an_agent_with_its_own_weights(adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = adapter.parent / "base"
    first_answer = answer(adapter)
    assert first_answer != answer(base)
    # Beside the adapter, and from the current folder.
    set_base(adapter, "../base")
    assert base_of(adapter) == base.resolve()
    assert answer(adapter) == first_answer
    monkeypatch.chdir(adapter.parent)
    set_base(adapter, "base")
    assert answer(adapter) == first_answer
    assert base_of(base) is None


def test_a_missing_base_is_named(adapter: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_base(adapter, "runs/gone")
    for words in (["eval", f"hf:{adapter}", "--rows", "1"], ["doctor", f"hf:{adapter}"]):
        assert main(words) == 2
        line = capsys.readouterr().err
        assert f"The adapter in {adapter} needs its base model: runs/gone is neither a folder nor a model" in line
        assert line.count("\n") == 1
    (adapter / ADAPTER).write_text("{}")
    with pytest.raises(ValueError, match="names no base_model_name_or_path"):
        base_of(adapter)


def test_an_adapter_is_trained_further(adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    set_base(adapter, "base")
    words = (
        "--env_id mage/KuhnPoker-Meta-v0 --max_rollouts 1 --groups_per_rollout 1 --num_generations 2 --num_episodes 1"
    )
    words += " --max_completion_length 4 --max_prompt_length 4000 --prompt_date 2024-02-29"
    assert main(["train", "--model", str(adapter), "--output_dir", str(tmp_path / "run"), *words.split()]) == 0
    settings = json.loads((tmp_path / "run" / ADAPTER).read_text())
    assert settings["base_model_name_or_path"] == str(tmp_path / "base")
    assert settings["r"] == 2
    play_settings = PlaySettings.load(tmp_path / "run")
    assert play_settings.prompt_format.date == "2024-02-29"
    assert play_settings.reply_format is not None
    assert play_settings.reply_format.thought_end == "</think>"


def test_positions_have_other_names(tmp_path: Path) -> None:
    config = LIBRARY.GPT2Config(vocab_size=len(TOKENIZER), n_embd=32, n_layer=1, n_head=4, n_positions=9000)
    folder = save_tiny(tmp_path / "gpt2", LIBRARY.GPT2LMHeadModel(config), TOKENIZER)
    agent: Any = make_agent(f"hf:{folder},max_tokens=8000")
    assert agent.request("KuhnPoker")["max_prompt_tokens"] == 1000


def test_a_model_without_chat_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    llama = LIBRARY.LlamaConfig(vocab_size=300, tie_word_embeddings=True, **small)
    for name, model in (
        ("classifier", LIBRARY.LlamaForSequenceClassification(llama)),
        ("bert", LIBRARY.BertForSequenceClassification(LIBRARY.BertConfig(vocab_size=300, **small))),
        ("t5", LIBRARY.T5ForConditionalGeneration(LIBRARY.T5Config(vocab_size=300, d_model=32, num_layers=1, d_ff=32))),
        ("short", tiny_model(len(TOKENIZER) - 2, hidden=16, layers=1, heads=2)),
    ):
        model.save_pretrained(tmp_path / name)
        TOKENIZER.save_pretrained(tmp_path / name)
    endless = byte_tokenizer()
    endless.eos_token = None
    endless.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
    tiny_model(len(TOKENIZER), hidden=16, layers=1, heads=2).save_pretrained(tmp_path / "endless")
    endless.save_pretrained(tmp_path / "endless")
    for name, message in {
        "classifier": "it is no causal language model, or its config (LlamaForSequenceClassification)",
        "bert": "it is no causal language model, or its config (BertForSequenceClassification)",
        "t5": "Unrecognized configuration class",
        "short": "The tokenizer has 259 ids and the model 257 embeddings",
        "endless": "has no token that ends a reply; set its eos_token",
    }.items():
        assert main(["doctor", f"hf:{tmp_path / name}"]) == 2
        line = capsys.readouterr().err
        assert message in line
        assert line.startswith("mage: ")
        assert line.count("\n") == 1
        assert len(line) < 500
    assert (
        main(["eval", f"hf:{tmp_path / 'endless'},max_tokens=100", "--env", "mage/KuhnPoker-Meta-v0", "--rows", "1"])
        == 2
    )
    assert "has no token that ends a reply" in capsys.readouterr().err


def test_the_doctor_prints_what_the_probe_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = general_tiny(tmp_path / "tiny")
    assert main(["doctor", f"hf:{folder}", "--json"]) == 0
    findings = {row["part"]: row["finding"] for row in json.loads(capsys.readouterr().out)}
    assert findings["a reply ends with"] == "<|im_end|> (256)"
    assert findings["markers of a thought"] == "'<think>' to '</think>'"
    assert findings["vocabulary"] == "259 ids, 259 embeddings"
    assert findings["replies"] == "played in batches of any lengths, with a cache"
    assert findings["positions"] == "32768"
    assert main(["doctor", "tiny"]) == 2
    assert "'tiny' must have one of the forms hf:MODEL" in capsys.readouterr().err
