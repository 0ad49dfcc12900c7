-- Note when an API key was used; a key that is gone leaves nothing behind.
--
-- KEYS  api_keys (hash: the key's id -> its record)   api_keys_used (hash: the key's id -> ms)
-- ARGV  1 id   2 when (ms)
-- Returns {'ok'} | {'corrupt', what}

if not integer(ARGV[2]) then return {'corrupt', 'arguments'} end
if redis.call('HEXISTS', api_keys, ARGV[1]) == 1 then redis.call('HSET', api_keys_used, ARGV[1], ARGV[2]) end
return {'ok'}
