# Completions of quern for fish: commands, options, targets, files.
# SPDX-License-Identifier: Apache-2.0

set -l commands warm tune bench manifest list inspect verify trim export import keys stats doctor
set -l targets sm_80 sm_86 sm_89 sm_90a sm_100a sm_120a gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 host host64
set -l ops attention merge_state fp8_gemm grouped_fp8_gemm gemm quantize dequantize moe_route moe_combine merge_states rope kv_append kv_copy_pages mla_decode rmsnorm sample gather mla_append index_scores softmax argmax top_k renormalise verify_draft pointwise copy norm norm_backward reduce scatter histogram sort conv1d nms conv2d quantized_gemm fft kernel
set -l first "not __fish_seen_subcommand_from $commands"

complete -c quern -f
complete -c quern -n $first -a warm -d 'Compile the kernels of a manifest or a model'
complete -c quern -n $first -a tune -d 'Measure which kernels are the fastest'
complete -c quern -n $first -a bench -d 'Measure ops on the device here'
complete -c quern -n $first -a manifest -d 'Write, show or check lists of kernels'
complete -c quern -n $first -a list -d 'List the kernels in the cache and the bundles'
complete -c quern -n $first -a inspect -d 'Show one kernel'
complete -c quern -n $first -a verify -d 'Check every entry of the cache and the bundles'
complete -c quern -n $first -a trim -d 'Make the cache smaller, mend it or empty it'
complete -c quern -n $first -a export -d 'Write the cache as a bundle'
complete -c quern -n $first -a import -d 'Add a bundle to the cache'
complete -c quern -n $first -a keys -d 'Make a key to sign bundles with'
complete -c quern -n $first -a stats -d 'Show where the cache is and what fills it'
complete -c quern -n $first -a doctor -d 'Say what is here and what is missing'
complete -c quern -n $first -l version -d 'Print the version'

complete -c quern -l cache -r -a '(__fish_complete_directories)' -d 'Folder of the cache'
complete -c quern -l bundle -r -F -d 'Look into this bundle too'
complete -c quern -l trust -x -d 'Take bundles only that this public key has signed'
complete -c quern -l cache-key -r -F -d 'Of a shared cache: the file with its key'
complete -c quern -l search-dir -r -a '(__fish_complete_directories)' -d 'Look here first for compilers and drivers'
complete -c quern -l shared-cache -d 'Accept a cache folder that others own or can write'
complete -c quern -l json -d 'Print one JSON object'
complete -c quern -s q -l quiet -d 'Say nothing but errors and data'
complete -c quern -s v -l verbose -d 'Say more'
complete -c quern -l no-color -d 'No colours'
complete -c quern -s h -l help -d 'Print help'

set -l warm '__fish_seen_subcommand_from warm'
complete -c quern -n $warm -F
complete -c quern -n $warm -l config -r -F -d "A model's config.json or GGUF file"
complete -c quern -n $warm -l target -x -a "(__fish_complete_list , 'string split \" \" \"$targets\"')" -d 'What to compile for'
complete -c quern -n $warm -l model-type -x -a 'llama mistral mixtral qwen2 qwen3 gemma2 phi3 deepseek_v3' -d 'Read the file as one of this family'
complete -c quern -n $warm -l allow-missing -d 'What no kernel does is no failure'
complete -c quern -n $warm -l any-path -d 'The manifest may name files outside of its folder'
complete -c quern -n $warm -l tp -x -a '1 2 4 8 16' -d 'Ranks that the heads are divided over'
complete -c quern -n $warm -l dtype -x -a 'bf16 f16' -d 'Of activations'
complete -c quern -n $warm -l kv-dtype -x -a 'bf16 f16 e4m3 e5m2 int8' -d 'Of the KV cache'
complete -c quern -n $warm -l kv-scales -x -a 'tensor token' -d 'Scales of an 8-bit KV cache'
complete -c quern -n $warm -l q-dtype -x -a 'bf16 e4m3' -d 'Of queries of prompts and drafts'
complete -c quern -n $warm -l weights -x -a 'bf16 fp8 fp8-block' -d 'How weights are stored'
complete -c quern -n $warm -l logits -x -a 'bf16 fp8' -d "How the logits' weights are stored\"
complete -c quern -n $warm -l page-size -x -a '16 32 64 128' -d 'Tokens a page of the KV cache'
complete -c quern -n $warm -s j -l jobs -x -a '1 2 4 8 16' -d 'Compilations at once'
complete -c quern -n $warm -l list-only -d 'Compile nothing'
complete -c quern -n $warm -l dry-run -d 'Compile nothing'

set -l tune '__fish_seen_subcommand_from tune'
complete -c quern -n $tune -F
complete -c quern -n $tune -l config -r -F -d "A model's config.json or GGUF file"
complete -c quern -n $tune -l model-type -x -a 'llama mistral mixtral qwen2 qwen3 gemma2 phi3 deepseek_v3' -d 'Read the file as one of this family'
complete -c quern -n $tune -l tp -x -a '1 2 4 8 16' -d 'Ranks that the heads are divided over'
complete -c quern -n $tune -l dtype -x -a 'bf16 f16' -d 'Of activations'
complete -c quern -n $tune -l weights -x -a 'bf16 fp8 fp8-block' -d 'How weights are stored'
complete -c quern -n $tune -l logits -x -a 'bf16 fp8' -d "How the logits' weights are stored\"
complete -c quern -n $tune -l rows -x -d 'Numbers of rows'
complete -c quern -n $tune -l device -x -a 'cuda hip host' -d 'What to measure on'
complete -c quern -n $tune -l milliseconds -x -d 'To measure each candidate for'
complete -c quern -n $tune -l again -d 'Measure what is known, too'
complete -c quern -n $tune -l list-only -d 'Measure nothing'
complete -c quern -n $tune -l dry-run -d 'Measure nothing'

set -l bench '__fish_seen_subcommand_from bench'
complete -c quern -n $bench -a "$ops"
complete -c quern -n $bench -l config -r -F -d "A model's config.json or GGUF file"
complete -c quern -n $bench -l model-type -x -a 'llama mistral mixtral qwen2 qwen3 gemma2 phi3 deepseek_v3' -d 'Read the file as one of this family'
complete -c quern -n $bench -l tp -x -a '1 2 4 8 16' -d 'Ranks that the heads are divided over'
complete -c quern -n $bench -l dtype -x -a 'bf16 f16' -d 'Of activations'
complete -c quern -n $bench -l kv-dtype -x -a 'bf16 f16 e4m3 e5m2 int8' -d 'Of the KV cache'
complete -c quern -n $bench -l kv-scales -x -a 'tensor token' -d 'Scales of an 8-bit KV cache'
complete -c quern -n $bench -l q-dtype -x -a 'bf16 e4m3' -d 'Of queries of prompts and drafts'
complete -c quern -n $bench -l weights -x -a 'bf16 fp8 fp8-block' -d 'How weights are stored'
complete -c quern -n $bench -l logits -x -a 'bf16 fp8' -d "How the logits' weights are stored\"
complete -c quern -n $bench -l page-size -x -a '16 32 64 128' -d 'Tokens a page of the KV cache'
complete -c quern -n $bench -l problems -r -F -d 'Problems, one a line'
complete -c quern -n $bench -l batch -x -d 'Sequences'
complete -c quern -n $bench -l context -x -d 'Keys of each sequence'
complete -c quern -n $bench -l queries -x -d 'New tokens of each sequence'
complete -c quern -n $bench -l device -x -a 'cuda host' -d 'What to measure on'
complete -c quern -n $bench -l against -x -a "$targets" -d "This target's kernels, too"
complete -c quern -n $bench -l milliseconds -x -d 'To measure each call for'
complete -c quern -n $bench -l seed -x -d 'Of the random contents'
complete -c quern -n $bench -l no-ceiling -d 'Do not measure what the device can do'
complete -c quern -n $bench -l svg -r -F -d 'Draw the shares of the ceilings'
complete -c quern -n $bench -l list-only -d 'Measure nothing'
complete -c quern -n $bench -l dry-run -d 'Measure nothing'

set -l manifest '__fish_seen_subcommand_from manifest'
complete -c quern -n $manifest -F
complete -c quern -n $manifest -l config -r -F -d "A model's config.json or GGUF file"
complete -c quern -n $manifest -l model-type -x -a 'llama mistral mixtral qwen2 qwen3 gemma2 phi3 deepseek_v3' -d 'Read the file as one of this family'
complete -c quern -n $manifest -l tp -x -a '1 2 4 8 16' -d 'Ranks that the heads are divided over'
complete -c quern -n $manifest -l dtype -x -a 'bf16 f16' -d 'Of activations'
complete -c quern -n $manifest -l kv-dtype -x -a 'bf16 f16 e4m3 e5m2 int8' -d 'Of the KV cache'
complete -c quern -n $manifest -l kv-scales -x -a 'tensor token' -d 'Scales of an 8-bit KV cache'
complete -c quern -n $manifest -l q-dtype -x -a 'bf16 e4m3' -d 'Of queries of prompts and drafts'
complete -c quern -n $manifest -l weights -x -a 'bf16 fp8 fp8-block' -d 'How weights are stored'
complete -c quern -n $manifest -l logits -x -a 'bf16 fp8' -d "How the logits' weights are stored\"
complete -c quern -n $manifest -l page-size -x -a '16 32 64 128' -d 'Tokens a page of the KV cache'
complete -c quern -n $manifest -l target -x -a "(__fish_complete_list , 'string split \" \" \"$targets\"')" -d 'What * stands for'
complete -c quern -n $manifest -l check -d 'Print nothing, fail where something is wrong or missing'
complete -c quern -n $manifest -l summary -d 'A line an op and target'
complete -c quern -n $manifest -l allow-missing -d 'What no kernel does is no failure'
complete -c quern -n $manifest -l any-path -d 'Lines may name files outside of its folder'

complete -c quern -n '__fish_seen_subcommand_from list' -l manifest -d 'Print lines for quern warm'
complete -c quern -n '__fish_seen_subcommand_from list' -s l -l long -d 'More columns'

complete -c quern -n '__fish_seen_subcommand_from inspect' -l extract -r -F -d 'Write the image to this file'

set -l trim '__fish_seen_subcommand_from trim'
complete -c quern -n $trim -l limit -x -a '256M 512M 1G 4G' -d 'Remove the least recently used beyond this size'
complete -c quern -n $trim -l rebuild -d 'Write a fresh file with every entry that verifies'
complete -c quern -n $trim -l all -d 'Remove every entry'

complete -c quern -n '__fish_seen_subcommand_from export' -l sign -r -F -d 'Sign it with this secret key'

complete -c quern -n '__fish_seen_subcommand_from export import keys' -F
complete -c quern -n '__fish_seen_subcommand_from list export' -a "$ops $targets"
set -l verify '__fish_seen_subcommand_from verify'
complete -c quern -n $verify -l run -d 'Run every kernel on the device here'
complete -c quern -n $verify -l device -x -a 'cuda hip host' -d 'What to run on'
complete -c quern -n $verify -l seed -x -d 'Of the random inputs'
