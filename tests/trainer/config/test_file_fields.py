"""Fields that a stranger's config or sweep file must not set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mage_envs.benchmarks.sweeps.plan import read_plan
from mage_envs.trainer.cli.arguments import parse_args
from mage_envs.trainer.config.file_fields import check_file_fields


@pytest.mark.parametrize(
    "fields",
    [
        {"trust_remote_code": True},
        {"trust-remote-code": True},
        {"model_init_kwargs": {"trust_remote_code": True}},
        {"model_init_kwargs": '{"trust_remote_code": true}'},
        {"model_init_kwargs": {"attn_implementation": "evil/kernel"}},
        {"attn_implementation": "evil/kernel"},
        {"push_to_hub": True},
        {"push_to_hub_token": "x"},
        {"hub_model_id": "me/stolen"},
        {"hub_token": "x"},
        {"vllm_server_base_url": "http://evil.example:8000"},
        {"vllm_server_host": "evil.example"},
        {"vllm_server_host": "8.8.8.8"},
        {"opponents": "kuhn/nash,llm:m@https://evil.example/v1"},
        {"opponents": {"llm:m@http://10.0.0.1:80/v1,temperature=0": 1.0}},
        {"env": {"HF_ENDPOINT": "http://evil.example"}},
        {"run_name": "--trust_remote_code=true"},
        {"lora_target_modules": ["q_proj", "--push_to_hub", "true"]},
        {"trust_remote_code=true": ""},
    ],
)
def test_a_file_sets_no_field_that_runs_code_or_publishes(fields: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump(fields))
    with pytest.raises(ValueError, match=r"c\.yaml: ") as raised:
        parse_args(["--config", str(file)])
    assert "\n" not in str(raised.value)
    for section in ({"common": fields}, {"overrides": {"a": fields}}):
        file.write_text(yaml.safe_dump(section))
        with pytest.raises(ValueError, match=r"c\.yaml: "):
            read_plan(file, 1)


def test_other_fields_are_free() -> None:
    fields = {
        "vllm_server_base_url": "http://127.0.0.1:8000",
        "vllm_server_host": "localhost",
        "opponents": "llm:qwen3:4b@http://localhost:11434/v1,temperature=0",
        "attn_implementation": "flash_attention_2",
        "env_kwargs": {"max_turns": 3},
        "lora_target_modules": ["q_proj"],
        "env_id": "mage/KuhnPoker-Meta-v0",
    }
    check_file_fields(fields, "c.yaml")


def test_flags_may_set_what_a_file_may_not() -> None:
    typed = parse_args(["--trust_remote_code", "true", "--model", "someone/model"])
    assert typed.explicit_fields["trust_remote_code"] == "true"


@pytest.mark.parametrize("name", ["../outside", "/tmp/abs", "a/b", "..", ".", "a\n", 1.5])
@pytest.mark.parametrize("section", ["overrides", "presets"])
def test_a_run_of_a_sweep_stays_below_its_folder(name: Any, section: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump({section: {name: {}} if section == "overrides" else [name]}))
    with pytest.raises(ValueError, match="must be a name of"):
        read_plan(file, 1)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1,1,1,1,1,1,1,1,1]\n"
        + "".join(
            f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "a: &a [*a]\n",
        "[" * 5000,
        "a: " + "x" * 2**20,
        "a: !!python/object/apply:os.system [id]\n",
        "a: \x00\n",
    ],
)
def test_a_file_of_any_form_is_one_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    for read in (lambda: parse_args(["--config", str(file)]), lambda: read_plan(file, 1)):
        with pytest.raises(ValueError, match=r"c\.yaml ") as raised:
            read()
        assert len(str(raised.value)) < 1000
        assert "\n" not in str(raised.value)
