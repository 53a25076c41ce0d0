# Completions of quern for bash: commands, options, targets, files.
# SPDX-License-Identifier: Apache-2.0

_quern() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local commands="warm tune bench manifest list inspect verify trim export import keys stats doctor"
  local global="--cache --bundle --trust --cache-key --search-dir --shared-cache --json --quiet --verbose --no-color --help"
  local targets="sm_80 sm_86 sm_89 sm_90a sm_100a sm_120a gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 host host64"
  local ops="attention merge_state fp8_gemm grouped_fp8_gemm gemm quantize dequantize moe_route moe_combine merge_states rope kv_append kv_copy_pages mla_decode rmsnorm sample gather mla_append index_scores softmax argmax top_k renormalise verify_draft pointwise copy norm norm_backward reduce scatter histogram sort conv1d nms conv2d quantized_gemm fft kernel"
  COMPREPLY=()

  # "--option=value" comes as three words.
  if [[ $current == "=" ]]; then
    current=""
  elif [[ $previous == "=" ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi

  case $previous in
    --cache | --search-dir)
      COMPREPLY=($(compgen -d -- "$current"))
      return
      ;;
    --bundle | --config | --extract | --sign | --cache-key | --problems | --svg)
      COMPREPLY=($(compgen -f -- "$current"))
      return
      ;;
    --target | --against)
      # A list: what stands before the last comma stays.
      local before=""
      [[ $current == *,* ]] && before=${current%,*},
      COMPREPLY=($(compgen -P "$before" -W "$targets" -- "${current##*,}"))
      return
      ;;
    --dtype)
      COMPREPLY=($(compgen -W "bf16 f16" -- "$current"))
      return
      ;;
    --weights)
      COMPREPLY=($(compgen -W "bf16 fp8 fp8-block" -- "$current"))
      return
      ;;
    --kv-dtype)
      COMPREPLY=($(compgen -W "bf16 f16 e4m3 e5m2 int8" -- "$current"))
      return
      ;;
    --kv-scales)
      COMPREPLY=($(compgen -W "tensor token" -- "$current"))
      return
      ;;
    --q-dtype)
      COMPREPLY=($(compgen -W "bf16 e4m3" -- "$current"))
      return
      ;;
    --logits)
      COMPREPLY=($(compgen -W "bf16 fp8" -- "$current"))
      return
      ;;
    --tp)
      COMPREPLY=($(compgen -W "1 2 4 8 16" -- "$current"))
      return
      ;;
    --page-size)
      COMPREPLY=($(compgen -W "16 32 64 128" -- "$current"))
      return
      ;;
    --limit)
      COMPREPLY=($(compgen -W "256M 512M 1G 4G" -- "$current"))
      return
      ;;
    --device)
      COMPREPLY=($(compgen -W "cuda hip host" -- "$current"))
      return
      ;;
    --jobs | -j)
      COMPREPLY=($(compgen -W "1 2 4 8 16" -- "$current"))
      return
      ;;
  esac

  # The command is the first word that is neither an option nor an option's value.
  local command="" index
  for ((index = 1; index < COMP_CWORD; ++index)); do
    case ${COMP_WORDS[index]} in
      --cache | --bundle | --trust | --cache-key | --search-dir) ((++index)) ;;
      -*) ;;
      *)
        command=${COMP_WORDS[index]}
        break
        ;;
    esac
  done

  if [[ -z $command ]]; then
    COMPREPLY=($(compgen -W "$commands $global --version" -- "$current"))
    return
  fi
  if [[ $current == -* ]]; then
    local own=""
    case $command in
      warm) own="--config --model-type --allow-missing --any-path --target --tp --dtype --kv-dtype --kv-scales --q-dtype --weights --logits --page-size --jobs --list-only --dry-run" ;;
      tune) own="--config --model-type --tp --dtype --weights --logits --rows --device --milliseconds --again --list-only --dry-run" ;;
      bench) own="--problems --config --model-type --tp --dtype --kv-dtype --kv-scales --q-dtype --weights --logits --page-size --batch --context --queries --device --against --milliseconds --seed --no-ceiling --svg --list-only --dry-run" ;;
      manifest) own="--target --config --model-type --tp --dtype --kv-dtype --kv-scales --q-dtype --weights --logits --page-size --check --summary --allow-missing --any-path" ;;
      list) own="--manifest --long" ;;
      inspect) own="--extract" ;;
      trim) own="--limit --rebuild --all" ;;
      export) own="--sign" ;;
      verify) own="--run --device --seed" ;;
    esac
    COMPREPLY=($(compgen -W "$own $global" -- "$current"))
    return
  fi
  case $command in
    bench) COMPREPLY=($(compgen -W "$ops" -- "$current")) ;;
    warm | tune | manifest | import | keys) COMPREPLY=($(compgen -f -- "$current")) ;;
    list | verify) COMPREPLY=($(compgen -W "$targets $ops" -- "$current")) ;;
    export)
      if ((COMP_CWORD == index + 1)); then
        COMPREPLY=($(compgen -f -- "$current"))
      else
        COMPREPLY=($(compgen -W "$targets $ops" -- "$current"))
      fi
      ;;
  esac
}

complete -o filenames -o bashdefault -F _quern quern
