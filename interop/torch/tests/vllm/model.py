"""Makes a small language model of random weights in vLLM's and SGLang's format, without a tokenizer: prompts are token ids.

    model.py FOLDER

4 layers of Llama's architecture, hidden size 512, 8 heads of 64 with 4 of keys and values, 1,024 tokens; float32.
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
                     num_key_value_heads=4, vocab_size=1024, max_position_embeddings=512, tie_word_embeddings=False,
                     initializer_range=0.08)  # large enough that the tokens differ
LlamaForCausalLM(config).save_pretrained(sys.argv[1])
