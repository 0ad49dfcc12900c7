-- Read snapshot and tail as of one moment.
--
-- KEYS  1 head (hash)   2 log (stream)
-- Returns {seq, snapshot, entries}

local h = redis.call('HMGET', KEYS[1], 'seq', 'snapshot')
local from = 1
if h[2] then from = cmsgpack.unpack(h[2])[3]['seq'] + 1 end
return {tonumber(h[1] or '0'), h[2] or '', redis.call('XRANGE', KEYS[2], string.format('%d-0', from), '+')}
