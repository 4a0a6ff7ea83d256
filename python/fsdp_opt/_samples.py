# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Samples that are trained in part: chats, instructions, prompts with completions, ready rows.

A sample is its tokens and its labels: the tokens, and -100 where nobody is trained.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import errors

IGNORED = -100

# The roles that other tools' files have.
_ROLES = {"human": "user", "gpt": "assistant", "model": "assistant", "chatgpt": "assistant"}


class Sample(NamedTuple):
    """What a row has of one conversation or document."""

    ids: list[int]
    labels: list[int]


class Form:
    """How documents become samples; subclasses are rows of FORMS."""

    def __init__(self, tokenizer: Any, column: str, train_on: Sequence[str]) -> None:
        self.tokenizer, self.column, self.train_on = tokenizer, column, set(train_on)
        self.end = getattr(tokenizer, "eos_token_id", None)

    def encode(self, document: Any, where: str) -> Sample:
        raise NotImplementedError

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"])

    def ended(self, ids: list[int]) -> list[int]:
        return ids if self.end is None else [*ids, self.end]

    def answer(self, prompt: str, completion: str) -> Sample:
        """The completion is trained, and the end behind it."""
        first, then = self.ids(prompt), self.ended(self.ids(completion))
        return Sample(first + then, [IGNORED] * len(first) + then)


def _take(document: Mapping[str, Any], key: str, where: str) -> Any:
    if not isinstance(document, Mapping) or key not in document:
        found = ", ".join(map(str, document)) if isinstance(document, Mapping) else type(document).__name__
        raise errors.make("E080", f"{where}: expected '{key}', found {found}; name another one as column=")
    return document[key]


def _text(document: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    value = document.get(key, default) if default is not None and isinstance(document, Mapping) else _take(document, key, where)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise errors.make("E082", f"{where}: expected a text as '{key}', found {type(value).__name__}")
    return value


class Completion(Form):
    """A text, all of which is trained."""

    def encode(self, document: Any, where: str) -> Sample:
        ids = self.ended(self.ids(document if isinstance(document, str) else _text(document, self.column or "text", where)))
        return Sample(ids, list(ids))


class Alpaca(Form):
    """`instruction`, perhaps `input`, and `output`, in the words of the data set of that name."""

    _WITH = ("Below is an instruction that describes a task, paired with an input that provides further context. "
             "Write a response that appropriately completes the request.\n\n### Instruction:\n{0}\n\n### Input:\n{1}\n\n### Response:\n")
    _WITHOUT = ("Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
                "### Instruction:\n{0}\n\n### Response:\n")

    def encode(self, document: Any, where: str) -> Sample:
        given = _text(document, "input", where, "")
        prompt = (self._WITH if given else self._WITHOUT).format(_text(document, "instruction", where), given)
        return self.answer(prompt, _text(document, "output", where))


class PromptCompletion(Form):
    """`prompt` and `completion`, both texts or both lists of messages."""

    def encode(self, document: Any, where: str) -> Sample:
        prompt, completion = _take(document, "prompt", where), _take(document, "completion", where)
        if isinstance(prompt, str) and isinstance(completion, str):
            return self.answer(prompt, completion)
        if isinstance(prompt, list) and isinstance(completion, list):
            chat = Chat(self.tokenizer, self.column, ["assistant"])
            return chat.tokens([*read_messages(prompt, where), *read_messages(completion, where)], where, len(prompt))
        raise errors.make("E082", f"{where}: expected 'prompt' and 'completion' to be two texts or two lists of messages, found "
                                  f"{type(prompt).__name__} and {type(completion).__name__}")


class Rows(Form):
    """`input_ids`, and `labels` if others than these are trained."""

    def encode(self, document: Any, where: str) -> Sample:
        ids = [int(each) for each in _take(document, "input_ids", where)]
        labels = [int(each) for each in document.get("labels", ids)]
        if len(ids) != len(labels):
            raise errors.make("E081", f"{where}: expected as many labels as input_ids, found {len(labels)} and {len(ids)}")
        return Sample(ids, labels)


def read_messages(messages: Any, where: str) -> list[dict[str, Any]]:
    """With `role` and `content`, also of `from` and `value`, as older files have them."""
    if not isinstance(messages, list) or not messages:
        raise errors.make("E082", f"{where}: expected a list of messages, found {type(messages).__name__}")
    found = []
    for each in messages:
        if isinstance(each, Mapping) and "from" in each and "value" in each:
            each = {"role": each["from"], "content": each["value"]}
        if not isinstance(each, Mapping) or not isinstance(each.get("role"), str) or "content" not in each:
            raise errors.make("E082", f"{where}: expected messages with 'role' and 'content', or 'from' and 'value', found {each!r:.80}")
        found.append({**each, "role": _ROLES.get(each["role"], each["role"])})
    return found


class Chat(Form):
    """Messages, through the tokenizer's own template."""

    def encode(self, document: Any, where: str) -> Sample:
        column = self.column or ("conversations" if "messages" not in document and "conversations" in document else "messages")
        return self.tokens(read_messages(_take(document, column, where), where), where)

    def render(self, messages: list[dict[str, Any]], where: str, **how: Any) -> list[int]:
        try:
            rendered = self.tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, **how)
        except Exception as error:  # what templates raise is anything
            raise errors.make("E082", f"{where}: the tokenizer's chat template refuses the messages: {error}") from error
        return list(rendered["input_ids"])

    def tokens(self, messages: list[dict[str, Any]], where: str, first: int = 0) -> Sample:
        """Trained are the messages from `first` on whose role is: all that the template writes for them behind what asks for an answer."""
        whole = self.render(messages, where)
        labels = [IGNORED] * len(whole)
        for number, message in enumerate(messages):
            if number < first or message["role"] not in self.train_on:
                continue
            if number == 0:
                begin = 0
            else:
                asks = message["role"] == "assistant"
                before = self.render(messages[:number], where, add_generation_prompt=asks)
                begin = len(before)
                if whole[:begin] != before:
                    raise errors.make("E082", f"{where}: the tokenizer's chat template writes message {number} otherwise when more follows, so that "
                                              "what is trained of it is not known; part the conversation in front of its last answer, or use another template")
            last = number == len(messages) - 1
            end = len(whole) if last else len(self.render(messages[:number + 1], where))
            if not last and whole[:end] != self.render(messages[:number + 1], where):
                raise errors.make("E082", f"{where}: the tokenizer's chat template writes message {number} otherwise when more follows; use another template")
            labels[begin:end] = whole[begin:end]
        return Sample(whole, labels)


FORMS: dict[str, Callable[[Any, str, Sequence[str]], Form]] = {
    "completion": Completion, "alpaca": Alpaca, "chat": Chat, "prompt_completion": PromptCompletion, "rows": Rows}
