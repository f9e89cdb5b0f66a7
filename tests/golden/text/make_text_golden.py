"""Makes templates.json and tokenizers.json: what transformers, Jinja2 and tokenizers answer, for the text tests.

Needs the Python packages transformers, tokenizers and jinja2. Run in this folder: python make_text_golden.py
"""

import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.utils.chat_template_utils import _compile_jinja_template

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi <there> & \"you\"  "},
    {"role": "assistant", "content": "One\ntwo", "tool_calls": [
        {"type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": [1.0, None, True, "é\u2028/"], "z": {}}}}]},
    {"role": "user", "content": "Ünïcode 中文 🦙"},
]
CONTEXT = {"messages": MESSAGES, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "tools": None,
           "n": 7, "x": 2.5, "flag": True, "nothing": None, "items": [3, 1, 2], "d": {"k": "v", "b": 2}, "empty": []}

TEMPLATES = [
    # Whitespace: trim_blocks, lstrip_blocks, explicit control, comments, the last line break.
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}\n",
    "a\n  {% if flag %}\n  b\n  {% endif %}\n  c\n",
    "a  {%- if flag -%}  b  {%- endif -%}  c",
    "a\n  {%+ if flag %}b{% endif +%}\n c",
    "x {# note #} y\n  {# whole line #}\nz\n\n",
    "{{- '  a  ' -}}   b   {{- 'c' }}\n\n",
    "{% raw %}{{ not }} {% if %}{% endraw %}",
    "\n\n{% set a = 1 %}\n{{ a }}\n\n",
    # Namespaces, scopes, loops.
    "{% set ns = namespace(found=false, n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
    "{% if m.role == 'user' %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.n }} {{ ns.found }}",
    "{% set v = 1 %}{% for i in items %}{% set v = i %}{% endfor %}{{ v }}",
    "{% for i in items %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.length }}{{ loop.first }}{{ loop.last }}"
    "{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in empty %}x{% else %}none{% endfor %}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.content | trim }};{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
    "{% for m in messages[::-1] %}{{ m.role }} {% endfor %}{% for m in messages[1:3] %}{{ m.role[0] }}{% endfor %}",
    "{% for i in items %}{{ loop.previtem | default('-') }}<{{ i }}>{{ loop.nextitem | default('-') }}{% endfor %}",
    "{% for i in items %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% with a = 1, b = n %}{{ a + b }}{% endwith %}",
    # Macros and calls.
    "{% macro turn(role, text='-') %}<{{ role }}>{{ text }}{% endmacro %}{{ turn('a') }}{{ turn('b', text='c') }}{{ turn(role='d') }}",
    "{% macro wrap(t) %}[{{ caller() }}{{ t }}]{% endmacro %}{% call wrap('x') %}in{% endcall %}",
    "{% macro rec(n) %}{{ n }}{% if n > 0 %}{{ rec(n - 1) }}{% endif %}{% endmacro %}{{ rec(5) }}",
    # tojson as transformers defines it.
    "{{ messages[2].tool_calls | tojson }}",
    "{{ messages[2].tool_calls[0].function.arguments | tojson(indent=2) }}",
    "{{ messages | tojson(indent=4) }}",
    "{{ d | tojson(separators=(',', ':')) }}{{ d | tojson(sort_keys=true) }}{{ messages[3].content | tojson(ensure_ascii=true) }}",
    "{{ 'a<b>&\\'\"\\\\\\n\\t' | tojson }}{{ 1.0 | tojson }}{{ 1e20 | tojson }}{{ 0.1 | tojson }}{{ true | tojson }}{{ none | tojson }}{{ [] | tojson }}{{ {} | tojson }}{{ [] | tojson(indent=2) }}",
    # Python's printing.
    "{{ true }} {{ none }} {{ 1.0 }} {{ 1e16 }} {{ 3 / 2 }} {{ 4 / 2 }} {{ 7 // 2 }} {{ -7 % 3 }} {{ 2 ** 3 }}",
    "{{ items }} {{ d }} {{ [true, none, 'a', \"it's\", 1.5] }} {{ (1, 2) }} {{ {'a': [1, {'b': none}]} }}",
    "{{ flag ~ n ~ 'x' }}|{{ n ~ '' }}|{{ items | join(', ') }}|{{ ['a', 1, 2.0] | join }}",
    "{{ undefined_thing }}|{{ d.nope }}|{{ d['nope'] | default('dflt') }}|{{ nothing | default('x') }}|{{ nothing | default('x', true) }}",
    # Tests.
    "{{ messages is defined }} {{ nope is defined }} {{ nope is undefined }} {{ nothing is none }} {{ n is number }} {{ x is float }} {{ n is integer }}",
    "{{ 'a' is string }} {{ items is string }} {{ items is iterable }} {{ 'a' is iterable }} {{ items is sequence }} {{ 'a' is sequence }} {{ d is mapping }} {{ d is sequence }} {{ flag is boolean }} {{ flag is true }} {{ flag is false }}",
    "{{ n is odd }} {{ n is even }} {{ n is divisibleby(7) }} {{ 1 in items }} {{ 9 not in items }} {{ 'k' in d }} {{ 'ell' in 'hello' }} {{ n is eq(7) }} {{ n is in [7] }}",
    "{% if not nothing and (flag or nope) %}yes{% elif flag %}no{% else %}never{% endif %}{{ 'a' if flag else 'b' }}{{ 'a' if nothing }}",
    # Filters.
    "{{ ' ab ' | trim }}|{{ 'ab' | upper }}|{{ 'AB' | lower }}|{{ 'hello world' | title }}|{{ 'hELLO' | capitalize }}|{{ 'abc' | replace('b', 'x') }}|{{ 'abc' | length }}|{{ items | count }}",
    "{{ items | first }} {{ items | last }} {{ items | sort }} {{ items | reverse | list }} {{ items | max }} {{ items | min }} {{ items | sum }} {{ [1, 1, 2] | unique | list }}",
    "{{ messages | map(attribute='role') | list }} {{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join('|') }} {{ messages | rejectattr('role', 'equalto', 'user') | list | length }}",
    "{{ items | map('string') | join('+') }} {{ items | select('odd') | list }} {{ items | reject('odd') | list }} {{ d | items | list }} {{ d | dictsort }}",
    "{{ 'a\\nb' | indent(2) }}|{{ 'a\\nb' | indent(2, true) }}|{{ '3' | int + 1 }}|{{ '2.5' | float }}|{{ 2.567 | round(1) }}|{{ -3 | abs }}|{{ n | string + 's' }}|{{ 'abc' | list }}",
    "{{ '%s is %d' | format('a', 3) }} {{ 'a b c' | wordcount }} {{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ 'ab' | escape }}",
    # Strings: slices, methods, concatenation.
    "{{ 'hello'[1:3] }} {{ 'hello'[-1] }} {{ 'hello'[::-1] }} {{ 'hello'[:-1] }} {{ 'héllo'[1] }} {{ items[-1] }} {{ messages[-1]['content'][:3] }}",
    "{{ 'a' + 'b' }} {{ 'a' 'b' }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ 'a' < 'b' }} {{ 1 < n <= 7 }}",
    "{{ ' a '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xxa'.lstrip('x') }}|{{ 'axx'.rstrip('x') }}|{{ 'a,b,,c'.split(',') }}|{{ ' a  b c '.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.upper() }} {{ 'abcabc'.replace('b', 'x', 1) }} {{ 'abc'.find('c') }} {{ 'abc'.find('z') }} {{ 'abcabc'.count('bc') }} {{ 'a'.join(['1', '2']) }}",
    "{{ 'they are'.title() }} {{ \"they're\".title() }} {{ 'ab'.capitalize() }} {{ '12'.isdigit() }} {{ 'a\\nb\\r\\nc'.splitlines() }} {{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ 'a=b=c'.partition('=') }} {{ 'ab'.zfill(4) }} {{ 'a'.center(5) }}|{{ 'a'.ljust(3) }}|{{ 'a'.rjust(3) }}",
    "{{ d.keys() | list }} {{ d.values() | list }} {{ d.get('k') }} {{ d.get('zz') }} {{ d.get('zz', 5) }} {{ 'k' in d.keys() }}",
    "{{ dict(a=1, b='x') }} {{ dict(a=1).a }} {{ range(3) | list }} {{ range(1, 6, 2) | list }}",
    "{{ messages[1]['content'].split('<')[-1].strip() }} {{ (messages | last).content }} {{ messages[0]['role'] in ['system', 'developer'] }}",
    "{{ '{:>5}|{}'.format('ab', 3) }}",
    "{% set content %}block {{ n }}{% endset %}{{ content | upper }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = d.k if d.k is defined else 'no' %}{{ c }}",
    "{% filter upper %}shout {{ n }}{% endfilter %}",
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}{{ eos_token }}{% endgeneration %}\n{% else %}[{{ message['content'] | trim }}]{% endif %}{% endfor %}",
    "{% for message in messages %}\n  {%- generation -%}\n  {{ message.role }}\n  {%- endgeneration %}\n{% endfor %}end",
]


def templates():
    cases = []
    for source in TEMPLATES:
        try:
            cases.append({"source": source, "rendered": _compile_jinja_template(source).render(**CONTEXT)})
        except Exception as error:  # noqa: BLE001 - the case list says what Jinja2 refuses
            print("refused by Jinja2:", source, error)
    return {"context": CONTEXT, "cases": cases}


CORPUS = ["Hello world, this is a test of the tokenizer.", "the quick brown fox jumps over the lazy dog 1234567890",
          "def f(x):\n    return x + 1\n", "It's they're we've I'm you'll he'd", "naïve café über straße"] * 4


def odd_lines(count, seed):
    rng = random.Random(seed)
    parts = ["a", "Hello", " world", "  ", "\t", "\n", "\r\n", "   ", "123", "4", "!!", "...", "'s", "'RE", "é", "e\u0301", "中文", "の",
             "🦙", "👩‍👩‍👧", "\u00a0", "\u3000", "_", "-", "/", "<s>", "</s>", "<|im_start|>", "user", "<tool>", "ſ", "İ", "½", "٣", "\u200b", "\\", "\"",
             "\u0085", "\u2028", "한국어", "ไทย", "\ufb01", "x" * 20, "The", "tokenizer"]
    fixed = ["", " ", "Hello world", " Hello world", "  two", "<s>text", "<|im_start|>user", "<s> <s>", "a<|im_start|> b", "This is 🦙.cpp",
             "tool <tool> x", "\n\n\n", "1234567 89"]
    return fixed + ["".join(rng.choice(parts) for _ in range(rng.randint(1, 9))) for _ in range(count)]


SPECIAL = [AddedToken("<unk>", normalized=False, special=True), AddedToken("<s>", normalized=False, special=True),
           AddedToken("</s>", normalized=False, special=True), AddedToken("<|im_start|>", normalized=False, special=True),
           AddedToken("<|im_end|>", normalized=False, special=True)]


def byte_level(pre_tokenizer, normalizer=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    return tokenizer


def sentencepiece(kind):
    """Byte fallback; the three ways in which a leading space is made."""
    tokens = [t.content for t in SPECIAL] + [f"<0x{b:02X}>" for b in range(256)]
    source = Tokenizer(models.BPE())
    source.pre_tokenizer = pre_tokenizers.Metaspace()
    source.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=150, show_progress=False))
    model = json.loads(source.to_str())["model"]
    tokens += list(model["vocab"])
    vocab = {token: index for index, token in enumerate(tokens)}
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    if kind == "legacy":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=kind, split=False)
        steps = steps[:3] if kind == "never" else steps
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    return tokenizer


QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def tokenizers():
    kinds = {
        "gpt2": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "digits": byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])),
        "qwen2": byte_level(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), normalizers.NFC()),
        "custom": byte_level(pre_tokenizers.Sequence([
            pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])),
        "metaspace_first": sentencepiece("first"),
        "metaspace_always": sentencepiece("always"),
        "metaspace_never": sentencepiece("never"),
        "legacy": sentencepiece("legacy"),
    }
    result = []
    for index, (name, tokenizer) in enumerate(kinds.items()):
        lines = []
        for text in odd_lines(1000 if name == "custom" else 60, index):
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            lines.append([text, ids] if name == "custom" else [text, ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids)])
        result.append({"name": name, "tokenizer": json.loads(tokenizer.to_str()), "with_special": tokenizer.encode("Hello").ids, "lines": lines})
    return result


if __name__ == "__main__":
    for name, value in (("templates.json", templates()), ("tokenizers.json", tokenizers())):
        with open(name, "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False, separators=(",", ":"))
