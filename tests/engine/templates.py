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
CHAT = {
    "messages": TURNS,
    "add_generation_prompt": True,
    "bos_token": "<s>",
    "eos_token": "</s>",
}
PLAIN = {
    "messages": TURNS[1:2],
    "add_generation_prompt": False,
    "bos_token": "<s>",
    "eos_token": "</s>",
}

# A tool that is called, its result, parts of content, letters beyond ASCII.
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": 'Where, as "Z\u00fcrich".'},
                "days": {
                    "type": "integer",
                    "enum": [1, 3, 7],
                    "nested": {"deep": {"unit": "day"}},
                },
            },
            "required": ["place"],
        },
    },
}
CALLS = [
    {"role": "system", "content": [{"type": "text", "text": "You know the weather."}]},
    {
        "role": "user",
        "content": [{"type": "image"}, {"type": "text", "text": " Z\u00fcrich? "}],
    },
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "c1",
                "function": {
                    "name": "get_weather",
                    "arguments": {"place": "Z\u00fcrich", "days": 3},
                },
            },
            {
                "id": "c2",
                "function": {
                    "name": "get_weather",
                    "arguments": {"place": "Bern", "sure": True},
                },
            },
        ],
    },
    {
        "role": "tool",
        "name": "get_weather",
        "tool_call_id": "c1",
        "content": {"degrees": 21.5},
    },
    {"role": "tool", "name": "get_weather", "tool_call_id": "c2", "content": "rain"},
    {
        "role": "assistant",
        "content": "It is warm.",
        "reasoning_content": "\nRain there.\n",
    },
    {"role": "user", "content": "thanks"},
]
TOOLS = {
    "messages": CALLS,
    "tools": [WEATHER, {"type": "builtin", "function": {"name": "search"}}],
    "builtin_tools": ["search", "code_interpreter", "wolfram"],
    "add_generation_prompt": True,
    "bos_token": "<s>",
    "eos_token": "</s>",
}

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
    # A system's text out of parts, turns chosen by a test, calls and their results.
    """{%- set lead = messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | first %}
{%- if lead is defined and lead is not string %}
  {%- set lead = lead | selectattr('type', 'eq', 'text') | map(attribute='text') | join('\n') %}
{%- endif %}
{%- set turns = messages | rejectattr('role', 'in', ['system', 'tool']) | list %}
{%- set users = turns | selectattr('role', 'equalto', 'user') | list %}
{%- set ns = namespace() %}{% set ns.index = 0 %}
{{- bos_token }}
{%- if tools is defined and tools | length > 0 %}[TOOLS]{{ tools | map(attribute='function.name') | join(', ') }}
{%- for tool in tools if tool.type == 'function' %}
  {%- set tool = tool.function %}{ {%- for key, value in tool.items() if key != 'parameters' %}
    {{- '"' + key + '": ' + value | tojson }}{{ '' if loop.last else ', ' }}
  {%- endfor %}}{% endfor %}[/TOOLS]
{%- endif %}
{%- for turn in turns %}
  {%- if turn.role == 'user' %}
    {%- set text = turn.content if turn.content is string else turn.content[-1]['text'] | trim %}
    {%- if loop.index0 == 0 or turn == users[-1] %}{{ '[INST]' ~ (lead or '') ~ ':' ~ text ~ '[/INST]' }}{% else %}
    {{- '[INST]' ~ text ~ '[/INST]' }}{% endif %}
    {%- set ns.index = ns.index + 1 %}
  {%- elif turn.tool_calls is defined and turn['tool_calls'] is not none and turn.tool_calls | length %}
    {%- for call in turn.tool_calls %}
      {%- set out = call.function | tojson %}
      {{- out[:-1] + ', "id": "' + call.id[-9:] + '"}' ~ ('' if loop.last else '; ') }}
    {%- endfor %}{{ eos_token }}
  {%- else %}
    {{- ' ' + turn['content'] | trim ~ eos_token }}
  {%- endif %}
{%- endfor %} {{ ns.index }} {{ users | length }}""",
    # Macros, one within the other and itself; a text that is set; rounds left out.
    """{%- macro list_of(items, between=', ', quote="'") -%}
  {%- for item in items -%}{{ quote ~ item ~ quote }}{% if not loop.last %}{{ between }}{% endif %}{%- endfor -%}
{%- endmacro %}
{%- macro fields(spec, depth=0) -%}
  {%- for key in spec.keys() | list -%}
    {{- '\n' ~ '  ' * depth ~ '<' ~ key ~ '>' -}}
    {%- if spec[key] is mapping -%}{{ fields(spec[key], depth=depth + 1) }}
    {%- elif spec[key] is iterable and spec[key] is not string -%}{{ '[' ~ list_of(spec[key], quote='') ~ ']' }}
    {%- else -%}{{ spec[key] | string }}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}
{%- set head %}
# {{ 'tools' | title }} of {{ messages[0].role | upper }}
{% endset %}
{{- head | trim }}
{%- if tools is iterable and tools is not mapping %}
{%- for tool in tools %}
{%- if tool.function is defined %}{% set tool = tool.function %}{% endif %}
{%- if 'parameters' not in tool %}{% continue %}{% endif %}
{{- fields(tool.parameters) }}
{%- endfor %}
{%- endif %}
{%- for message in messages %}
{%- if message.tool_calls %}
  {%- for call in message.tool_calls %}
    {%- for name, value in call.function.arguments | items %}
      {{- name ~ '=' ~ (value if value is string else value | tojson) ~ ' ' }}
    {%- endfor %}
  {%- endfor %}
{%- elif message.role == "tool" %}
  {%- if loop.previtem and loop.previtem.role != "tool" %}{{- '<user>' }}{% endif %}
  {{- '<response>' ~ (message.content | tojson if message.content is mapping else message.content) ~ '</response>' }}
  {%- if not loop.last and loop.nextitem.role != "tool" %}{{- '</user>' }}{% endif %}
{%- endif %}
{%- if message.role == 'assistant' and not message.tool_calls %}{% break %}{% endif %}
{%- endfor %}
{%- for message in messages[::-1] if message.reasoning_content is defined and message.reasoning_content is not false %}
{{ loop.revindex }}{{ loop.revindex0 }} {{ message.reasoning_content.strip('\n') }}{{ list_of(tools | map('length')) }}
{%- endfor %}""",
    # Content that is a text or parts; a prefix in front of the first turn.
    """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
  {%- if messages[0]['content'] is string -%}
    {%- set prefix = messages[0]['content'] + '\n\n' -%}
  {%- else -%}
    {%- set prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
  {%- endif -%}
  {%- set loop_messages = messages[1:] -%}
{%- else -%}
  {%- set prefix = "" -%}
  {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages if message.role in ('user', 'assistant') and message.content -%}
  {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
{{ '<turn>' + role + '\n' + (prefix if loop.first else "") }}
{%- if message['content'] is string -%}
{{ message['content'] | trim }}
{%- elif message['content'] is iterable -%}
{%- for item in message['content'] -%}
{%- if item['type'] == 'image' -%}{{ '<image>' }}
{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}
{%- endif -%}
{%- endfor -%}
{%- else -%}{{ raise_exception('Invalid content type') }}
{%- endif -%}
{{ '</turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<turn>model\n' }}{%- endif -%}""",
    # Tools by name, indented JSON, what is said where nothing is.
    """{{- bos_token }}
{%- if custom_tools is defined %}{% set tools = custom_tools %}{% endif %}
{%- if not date_string is defined %}{% set date_string = "26 Jul 2024" %}{% endif %}
{%- if not tools is defined %}{% set tools = none %}{% endif %}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: python\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\n\n" }}
{%- endif %}
{{- "Today: " + date_string + "\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<' + message['role'] + '>\n\n' }}{{ message['content'] if message.content is string else 'parts' }}
    {%- elif 'tool_calls' in message %}
        {%- set tool_call = message.tool_calls[0].function %}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}{{- 'builtin' }}
        {%- else %}
            {{- '{"name": "' + tool_call.name + '", ' }}
            {{- '"parameters": ' }}
            {{- tool_call.arguments | tojson }}
            {{- "}" }}
        {%- endif %}
        {%- for arg_name, arg_val in tool_call.arguments.items() %}
            {{- arg_name + '="' + arg_val | string + '"' }}{% if not loop.last %}{{- ", " }}{% endif %}
        {%- endfor %}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {%- if message.content is mapping or message.content is iterable %}{{- message.content | tojson }}{%- endif %}
    {%- endif %}
{%- endfor %}""",
    # What else there is by name.
    """{{ ['b', 'A', 'c', 'a'] | sort | join }}
{{ [3, 1, 2] | sort(reverse=true) | join(',') }}
{{ messages | map(attribute='role') | unique | join(',') }}
{{ messages | map(attribute='name', default='-') | join }}
{{ [1, 2, 3, 4] | select('odd') | join(',') }}
{{ [1, 2, 3, 4] | reject('divisibleby', 2) | sum }}
{{ ['x', '', none, 0, 'y'] | select | join(',') }}
{{ [4, 2, 9] | min }}
{{ ['a', 'B'] | max }}
{{ [] | first is defined }}
{{ "don't stop-me now" | title }}
{{ "don't stop-me now".title() }}
{{ 'hELLO wORLD' | capitalize }}
{{ 'ab'.capitalize() }}
{{ '  a  b c '.split() | join('/') }}
{{ 'a,b,c'.split(',', 1) | join('|') }}
{{ ' x y  z'.split(none, 1) | join('|') }}
{{ 'xxaxx' | trim('x') }}
{{ 'xxaxx'.lstrip('x') }}
{{ 'prefix-a'.removeprefix('prefix-') }}
{{ 'a.py'.removesuffix('.py') }}
{{ 'a-b'.find('-') }}
{{ 'abab'.count('ab') }}
{{ '12'.isdigit() }}
{{ 'a\nb\r\nc'.splitlines() | length }}
{{ '-'.join(['p', 'q']) }}
{{ '7' | int + 1 }}
{{ 'x' | int(5) }}
{{ '2.5' | float }}
{{ 3.7 | int }}
{{ 2.345 | round(2) }}
{{ -3 | abs }}
{{ 6 / 3 }}
{{ 'one\ntwo\n\nthree' | indent(2) }}
{{ 'ab' * 3 }}
{{ 'Z\u00fcrich' | length }}
{{ 'Z\u00fcrich'[1] }}
{{ 'Z\u00fcrich'[::-1] }}
{{ {'b': 2, 'A': 1} | dictsort | map('first') | join }}
{{ {'k': 1}.keys() | list | first }}
{{ {'k': 5}.values() | list | last }}
{{ 5 is odd }}
{{ 6 is divisibleby 3 }}
{{ 6 is divisibleby(4) }}
{{ 'a' is in ['a'] }}
{{ 1 is eq 1 }}
{{ 2 is gt(1) }}
{{ 'a' is lower }}
{{ 1 is integer }}
{{ 1.5 is float }}
{{ x is none }}
{{ x | length }}
{{ 'a' in x }}
{% for y in x %}{{ y }}{% else %} nothing{% endfor %}
{{ 'tab\\tquote\\'s \\x41\\u00e9 back\\\\slash' 'joined' }}
{{ (1, 2) | join('+') }}
{{ range(5, 0, -2) | join }}
{{ 'abc' | reverse }}
{% for c in 'xyz' %}{{ c }}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}
   {%+ if true %}kept{% endif +%}
{{ 'a' if false }}|{{ tools | map(attribute='type') | list | tojson if tools is defined else [] | tojson }}
{% if true -%}   gone{%- endif %}   .""",
]


def main() -> None:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )

    def refuse(text: str) -> None:
        raise ValueError(text)

    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    environment.globals["raise_exception"] = refuse
    cases = []
    for text in TEMPLATES:
        for variables in (CHAT, PLAIN, TOOLS):
            if variables is TOOLS and text in TEMPLATES[:4]:
                continue  # these have no word of parts or tools
            made = environment.from_string(text).render(**variables)
            cases.append({"template": text, "variables": variables, "text": made})
    print(json.dumps(cases, indent=1))


if __name__ == "__main__":
    main()
