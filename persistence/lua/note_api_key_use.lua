-- Note when an API key was used; a key that is gone leaves nothing behind.
--
-- KEYS  1 api-keys (hash: the key's id -> its record)   2 api-keys-used (hash: the key's id -> ms)
-- ARGV  1 id   2 when (ms)
-- Returns {'ok'} | {'corrupt', what}

if not integer(ARGV[2]) then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'hash') or not is(KEYS[2], 'hash') then return {'corrupt', 'the API keys are no hash'} end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then redis.call('HSET', KEYS[2], ARGV[1], ARGV[2]) end
return {'ok'}
