-- Forget clients whose departure was judged, unless they have come back since.
--
-- KEYS  head (hash)   clients (hash: see `_prelude.lua`)   here (sorted set by time: see `_prelude.lua`)   attention (sorted set)
-- ARGV  1 conversation id   2 after how many ms without a client its departure has to be judged   then clients
-- Returns {'ok'} | {'corrupt', what}

local after_ms = integer(ARGV[2])
if not after_ms or ARGV[1] == '' then return {'corrupt', 'arguments'} end
local now = clock()
for i = 3, #ARGV do
  for _, letters in ipairs(KINDS_OF_CLIENTS) do
    local ends = redis.call('ZSCORE', here, letters .. ARGV[i])
    if ends and tonumber(ends) + after_ms <= now then
      redis.call('ZREM', here, letters .. ARGV[i])
      redis.call('HDEL', clients, ARGV[i])
    end
  end
end
note_leaves(head, here, attention, ARGV[1], after_ms)
return {'ok'}
