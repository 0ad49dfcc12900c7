-- Take a conversation over: compare-and-set on the owner's token.
--
-- KEYS  1 head (hash)   2 log (stream)   3 runs (hash)   4 attention (sorted set)
-- ARGV  1 seen token   2 new token   3 because: asked|died|own   4 holder   5 lease in ms   6 create 0|1   7 conversation id
-- Returns {'ok', epoch, now, seq, snapshot, runs, entries} | {'missing'} | {'moved', token, epoch, holder}
--       | {'busy', ms left} | {'corrupt', what}

local head, log, runs, attention = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local seen, new, because, holder, conversation = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[7]
local lease_ms = integer(ARGV[5])
if not lease_ms or new == '' then return {'corrupt', 'arguments'} end
if not is(head, 'hash') then return {'corrupt', 'the head is no hash'} end
if not is(log, 'stream') then return {'corrupt', 'the log is no stream'} end
if not is(runs, 'hash') then return {'corrupt', 'the runs are no hash'} end
if not is(attention, 'zset') then return {'corrupt', 'the attention index is no sorted set'} end

local now = clock()
local h = redis.call('HMGET', head, 'token', 'epoch', 'holder', 'lease', 'busy', 'seq', 'snapshot', 'due')
local token, epoch, lease = h[1] or '', tonumber(h[2] or '0'), tonumber(h[4] or '0')
local seq = tonumber(h[6] or '0')
if seq == 0 and ARGV[6] ~= '1' then return {'missing'} end
if token ~= new then
  if token ~= seen then return {'moved', token, epoch, h[3] or ''} end
  if token ~= '' and h[5] == '1' and because == 'asked' and lease > now then return {'busy', lease - now} end
  epoch = epoch + 1
  lease = now + lease_ms
  redis.call('HSET', head, 'token', new, 'epoch', string.format('%d', epoch), 'holder', holder,
    'lease', string.format('%d', lease))
  attend(attention, conversation, h[5], lease, h[8])
end
local from = 1
if h[7] then from = cmsgpack.unpack(h[7])[3]['seq'] + 1 end
local tail = redis.call('XRANGE', log, string.format('%d-0', from), '+')
return {'ok', epoch, now, seq, h[7] or '', redis.call('HGETALL', runs), tail}
