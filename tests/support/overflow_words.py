"""What providers say of a request that is too long for its model, and of others that they refuse in like words."""

MAPPED = {
    "openai": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    "vllm": "'max_tokens' is too large: 8000. This model's maximum context length is 8192 tokens and your request has 900.",
    "azure": "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.",
    "anthropic": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length.",
    "moonshot": "Your request exceeds the model's maximum context limit",
    "sglang": "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "llama.cpp": "the request exceeds the available context size. try increasing the context size or enable context shift",
    "gemini": "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    "cerebras": "Current length is 9000 while limit is 8192",
    "text-generation-inference": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
    "nvidia": "The maximum input length is 512 tokens, and this has 700.",
}
"""By provider: litellm takes it for that whoever says it."""
MAPPED_OF_ONE = {
    ("anthropic", 400): "prompt is too long: 210000 tokens > 200000 maximum",
    ("anthropic", 422): "prompt: length: 1..64000 expected",
    ("replicate", 400): "input is too long",
    ("bedrock", 400): "Input is too long for requested model.",
    ("bedrock", 422): "too many tokens: 9000",
    ("bedrock", 413): "Too many input tokens. Max input tokens: 8192, request input token count: 9000",
    ("bedrock_mantle", 400): "validation_error: prompt tokens (131073) exceed model maximum (131072)",
    ("sagemaker", 400): "`inputs` tokens + `max_new_tokens` must be <= 2048",
    ("cohere", 400): "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.",
    ("nlp_cloud", 400): "detail: Input text length should not exceed 2048 tokens",
    ("together_ai", 400): "`inputs` tokens + `max_new_tokens` must be <= 32769",
    ("aleph_alpha", 400): "This is longer than the model's maximum context length",
}
"""By provider and status: litellm takes it for that from this provider, and Holdfast from each."""
MAPPED_OF_ONE_ALONE = {
    ("bedrock", 400): "Malformed input request: expected maxLength: 50000, actual: 60000, please reformat your input",
    ("sagemaker", 400): "choose an instance type with more CPU capacity or memory",
    ("vertex_ai", 400): "400 Request payload size exceeds the limit: 20971520 bytes.",
    ("huggingface", 400): "length limit exceeded",
}
"""By provider and status: said by others, it may mean something else."""
UNMAPPED = {
    "code": "Error code: context_length_exceeded",
    "openai, responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "bedrock": "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
    "bedrock, converse": "Input is too long for requested model.",
    "anthropic, compatible": "prompt is too long: 210000 tokens > 200000 maximum",
    "xai": "This model's maximum prompt length is 131072 but the request contains 200001 tokens.",
    "groq": "Please reduce the length of the messages or completion.",
    "vllm": "Please reduce the length of the input messages.",
    "ai21": "Prompt has too many tokens",
    "mistral": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "kimi": "Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)",
    "qwen": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
    "zhipu": "Prompt exceeds max length",
    "minimax": "invalid params, context window exceeds limit (2013)",
    "volcengine": "Total tokens of image and text exceed max message tokens.",
    "copilot": "prompt token count of 140000 exceeds the limit of 128000",
    "github": "tokens_limit_reached: Request body too large for gpt-4o model. Max size: 8000 tokens.",
    "ollama": "prompt too long; exceeded max context length by 2000 tokens",
    "lm studio": "The number of tokens to keep from the initial prompt is greater than the context length.",
    "sglang": "Input length (5000 tokens) exceeds the maximum allowed length (4095 tokens). Use a shorter input.",
    "embedding": "Input validation error: `inputs` must have less than 512 tokens. Given: 700",
    "watsonx": "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model",
    "together": "too many tokens: size limit exceeded by 2000 tokens",
    "another, both": "The prompt length (9000 tokens) and max_tokens exceed the model's maximum of 8192 tokens.",
    "another": "Input token count (40000) exceeds the number of input tokens allowed (32768).",
}
"""By provider: litellm maps none of these, where an interface like OpenAI's says them."""
OTHERWISE = {
    "nothing": "",
    "a length": "[{'loc': 'prompt', 'msg': 'prompt: length must be at least 1'}]",
    "an option": "Unknown parameter: 'tools[0].search_context_size'.",
    "a value": "Invalid value for 'temperature'.",
    "a tool": "Unknown tool 'context'.",
    "credit": "Your credit balance is too low.",
    "quota": "You exceeded your current quota, please check your plan.",
    "openai, in a minute": "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 34567. The input or"
    " output tokens must be reduced: too many tokens.",
    "groq, in a minute": "Request too large on tokens per minute (TPM): Limit 6000, Requested 6500, please reduce the length of"
    " the messages and try again.",
    "anthropic, in a minute": "Prompt tokens would exceed your organization's limit of 40,000 input tokens per minute.",
    "bedrock, in a while": "Too many tokens, please wait before trying again.",
    "bedrock, in a day": "Too many tokens per day, please wait before trying again.",
    "azure, in a minute": "Your requests exceed the maximum input tokens of the call rate limit of your tier.",
    "openai, output": "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
    "anthropic, output": "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for this model",
    "gemini, output": "it has a maxOutputTokens value of 100000 but the supported range is from 1 to 8193 (exclusive)",
    "groq, output": "`max_completion_tokens` must be less than or equal to `8192`, the maximum value for"
    " `max_completion_tokens` is less than the `context_window` for this model",
    "qwen, output": "Range of max_tokens should be [1, 8192]",
    "deepseek, output": "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    "bedrock, output": "The maximum tokens you requested exceeds the model limit of 4096. Try again with a lower one.",
    "another, output": "max_output_tokens exceeds the maximum tokens of an answer",
    "image, bytes": "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
    "image, pixels": "At least one of the image dimensions exceed max allowed size: 8000 pixels",
    "image, size": "The image is too large. Please reduce the size of the image and try again.",
    "image, input": "Image too large: reduce the size of the input image.",
    "images": "too many images and documents: 101 + 0 > 100",
    "pages": "A maximum of 100 PDF pages may be provided.",
    "a field": "Invalid 'user': string too long. Expected a string with maximum length 64.",
    "an id": "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got 60.",
}
"""What else providers refuse, and how they say it."""
