-- Store an API key, as long as there are not too many.
--
-- KEYS  1 api-keys (hash: the key's id -> its record, which holds no secret)
-- ARGV  1 id   2 record   3 how many may stand
-- Returns {'ok'} | {'full'} | {'corrupt', what}

local most = integer(ARGV[3])
if not most then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'hash') then return {'corrupt', 'the API keys are no hash'} end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= most then return {'full'} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return {'ok'}
