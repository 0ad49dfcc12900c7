-- Read snapshot and tail as of one moment.
--
-- KEYS  head (hash)   log (stream)
-- Returns {'ok', seq, snapshot, entries} | {'corrupt', what}
-- An unreadable snapshot is returned without a tail: the caller reports what is wrong with it.

local h = redis.call('HMGET', head, 'seq', 'snapshot')
if bad(h[1]) then return {'corrupt', 'the head: a number is malformed'} end
local from = 1
if h[2] then
  local at = snapshot_seq(h[2])
  if not at then return {'ok', tonumber(h[1] or '0'), h[2], {}} end
  from = at + 1
end
return {'ok', tonumber(h[1] or '0'), h[2] or '', redis.call('XRANGE', log, string.format('%d-0', from), '+')}
