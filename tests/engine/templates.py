# What Jinja makes of chat templates, as transformers sets it up:
#   pip install jinja2; python3 templates.py > templates.json
# The engine's tests hold its own reading of them against this.
# SPDX-License-Identifier: Apache-2.0
import json

from jinja2.sandbox import ImmutableSandboxedEnvironment

TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  What is 2 + 2?\n"},
    {"role": "assistant", "content": "<think>\nEasy.\n</think>\n\nIt is 4."},
    {"role": "user", "content": 'And 3 + 3 = "six"?'},
]
CHAT = {"messages": TURNS, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
PLAIN = {"messages": TURNS[1:2], "add_generation_prompt": False, "bos_token": "<s>", "eos_token": "</s>"}

# Each after the manner of a family: one line of statements, blocks over lines, alternating roles, thoughts left out.
TEMPLATES = [
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '[system]\nHelp.[end]\n' }}"
    "{% endif %}{{'[' + message['role'] + ']\n' + message['content'] + '[end]' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[assistant]\n' }}{% endif %}",
    """{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{#- A comment with {{ what }} is not written. #}
{{- "(head)system(/head)\\n\\n" }}
{%- if tools is defined and tools is not none %}
    {{- "tools" }}
{%- elif not tools is defined %}
    {{- "no tools; " ~ messages | length ~ " turns\\n" }}
{%- endif %}
{{- system_message }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '(head)' + message['role'] + '(/head)\\n\\n' + message['content'] | trim + '(turn)' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '(head)assistant(/head)\\n\\n' }}
{%- endif %}
""",
    """{{ bos_token }}{% for message in messages if message['role'] != 'system' %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Roles must alternate') }}
{% endif %}
{% if message['role'] == 'user' %}
  {{ '[INST] ' + message['content'].strip() + ' [/INST]' }}
{%- else -%}
  {{ ' ' + message.content + eos_token }}
{%- endif %}
{% endfor %}
   end{% if add_generation_prompt %}!
   {% endif %}
""",
    """{%- set ns = namespace(last=messages|length - 1, seen=false, words=['a', 'b'] + ["c"]) %}
{%- for message in messages[::-1] %}
  {%- set index = (messages|length - 1) - loop.index0 %}
  {%- if not ns.seen and message.role == "user" and not('tool' in message or message.content.endswith('</tool>')) %}
    {%- set ns.seen = true %}
    {%- set ns.last = index %}
  {%- endif %}
{%- endfor %}
{%- for message in messages %}
  {%- set content = message.content if message.content is string else '' %}
  {%- if message.role == 'assistant' and '</think>' in content %}
    {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
  {%- endif %}
  {{- '<' ~ message.role|upper ~ ' ' ~ loop.index ~ '/' ~ loop.length ~ '>' + content.rstrip() }}
  {%- if loop.last %}{{ ' *' }}{% else %},
{% endif %}
{%- endfor %}
{{ ns.last }} {{ ns.words | join('+') }} {{ ns.words[1:] | join }} {{ missing }}|{{ missing | default('none given') }}
{{ range(3) | join(' ') }} {{ 7 // 2 }} {{ 7 % 4 }} {{ -3 + 1 }} {{ 1.5 * 3 }} {{ 'x' in 'xyz' }}
{{ none }} {{ 'a.b'.replace('.', '-') ~ 'c'.startswith('c') }} {{ messages | tojson }}
{{ {'a': [], 'b': [1, 2.5, none, true]} | tojson }}
{%- for key, value in {'role': 'r', 'content': 'c'}.items() if false %}{{ key }}{% else %} empty{% endfor %}
{% for key, value in messages[0].items() %}{{ key }}={{ value|length }};{% endfor %}""",
]


def main() -> None:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)

    def refuse(text: str) -> None:
        raise ValueError(text)

    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = refuse
    cases = [
        {"template": text, "variables": variables, "text": environment.from_string(text).render(**variables)}
        for text in TEMPLATES
        for variables in (CHAT, PLAIN)
    ]
    print(json.dumps(cases, indent=1))


if __name__ == "__main__":
    main()
