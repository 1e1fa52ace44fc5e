"""This machine, as a laptop of the seed's kind: 6 GB of VRAM, 32 GB of RAM, a mixture of experts of about 12 GB.

Another machine: replace "@local" by its SSH name. Another model: replace model_repo and model_file by your own, or by
model_path="~/models/mine.gguf" for a file that is on the machine already.
"""

laptops = [
    (
        "@local",
        {
            "model_repo": "unsloth/Qwen3.6-35B-A3B-GGUF",
            "model_file": "Qwen3.6-35B-A3B-UD-IQ2_M.gguf",
            "context": 122880,
            "ubatch": 2048,
            "cache_type_k": "q4_0",
            "cache_type_v": "q4_0",
            "flash_attention": "on",
            "temperature": 1.0,
            "top_p": 0.95,
            "top_k": 20,
            "min_p": 0.0,
        },
    ),
]
