-- End a client's presence now, if it is still attached in this session.
--
-- KEYS  head (hash)   clients (hash: see `_prelude.lua`)   here (sorted set by time: see `_prelude.lua`)   attention (sorted set)
-- ARGV  1 conversation id   2 client   3 session; '': any   4 for how many ms clients that are gone are known
--       5 after how many ms without the client its departure has to be judged
-- Returns {'ok'} | {'no'} | {'corrupt', what}
-- The keys expire once nobody is present and no departure has to be judged.

local kept_ms, after_ms = integer(ARGV[4]), integer(ARGV[5])
if not (kept_ms and after_ms) or ARGV[1] == '' then return {'corrupt', 'arguments'} end
local session = string.match(redis.call('HGET', clients, ARGV[2]) or '', '^([^|]*)|')
if not session or (ARGV[3] ~= '' and ARGV[3] ~= session) then return {'no'} end
local now = clock()
for _, end_of in ipairs({'k', 'c'}) do
  local ends = redis.call('ZSCORE', here, end_of .. 'a' .. ARGV[2])
  if ends then
    redis.call('ZREM', here, end_of .. 'a' .. ARGV[2])
    redis.call('ZADD', here, string.format('%d', math.min(tonumber(ends), now)), end_of .. 'd' .. ARGV[2])
  end
end
note_leaves(head, here, attention, ARGV[1], after_ms)
local found, stays = redis.call('ZRANGE', here, 0, -1, 'WITHSCORES'), false
for i = 1, #found, 2 do stays = stays or string.sub(found[i], 1, 1) == 'c' or tonumber(found[i + 1]) > now end
if not stays then
  redis.call('PEXPIRE', here, string.format('%d', kept_ms))
  redis.call('PEXPIRE', clients, string.format('%d', kept_ms))
end
return {'ok'}
