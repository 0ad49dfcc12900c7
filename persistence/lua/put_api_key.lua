-- Store an API key, up to a number of keys.
--
-- KEYS  api_keys (hash: the key's id -> its record, which holds no secret)
-- ARGV  1 id   2 record   3 the most keys
-- Returns {'ok'} | {'full'} | {'corrupt', what}

local most = integer(ARGV[3])
if not most then return {'corrupt', 'arguments'} end
if redis.call('HEXISTS', api_keys, ARGV[1]) == 0 and redis.call('HLEN', api_keys) >= most then return {'full'} end
redis.call('HSET', api_keys, ARGV[1], ARGV[2])
return {'ok'}
