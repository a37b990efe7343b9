#!/usr/bin/env bash
# An interpreter that can import SGLang, without a GPU: for the tests in tests/engine. Prints its path.
#   scripts/engine_env.sh [FOLDER]     default: ~/.cache/recon/engine-VERSION; made once, then found again
# About 3 GB. CPU builds of torch are enough: only the argument parser and the registry are read.
set -euo pipefail
version=0.5.23
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/recon/engine-$version}
python=$folder/bin/python
if [ ! -e "$folder/complete" ]; then
  rm -rf "$folder"
  python3 -m venv "$folder"
  pip() { "$python" -m pip install -q --disable-pip-version-check "$@" >&2; }
  pip -U pip
  pip torch==2.13.0
  pip --no-deps "sglang==$version"
  pip triton aiohttp anthropic blobfile==3.0.0 compressed-tensors==0.18.0 datasets distro easydict einops fastapi gguf \
    interegular IPython 'llguidance<2,>=1.7.6' 'mistral_common>=1.11.5' modelscope msgspec numba==0.65.1 numpy nvidia-ml-py \
    openai==2.8.0 openai-harmony==0.0.4 orjson packaging partial_json_parser pillow prometheus-client psutil pybase64 pydantic \
    python-multipart pyzmq regex requests scipy sentencepiece==0.2.1 setproctitle tiktoken tokenizers==0.23.2 tqdm \
    transformers==5.19.0 'uvicorn>=0.51' uvloop watchfiles xxhash zstandard 'python-dateutil<3'
  pip --no-deps apache-tvm-ffi==0.1.11 xgrammar==0.2.7 outlines==0.1.11 outlines-core
  touch "$folder/complete"
fi
"$python" -c 'from sglang.srt.server_args import ServerArgs' >&2
echo "$python"
