-- Take a conversation over: compare-and-set on the owner's token.
--
-- KEYS  head (hash)   log (stream)   runs (hash)   attention (sorted set)
--       paused (sorted set by name: 'agent|conversation')
-- ARGV  1 seen token   2 new token   3 because: asked|died|own   4 holder   5 lease in ms   6 create 0|1   7 conversation id
--       8 the record version that the caller reads   9 whether the caller has a cipher, 0|1
-- Returns {'ok', epoch, now, seq, snapshot, runs, entries, strikes, company} | {'missing'} | {'moved', token, epoch, holder}
--       | {'busy', ms left} | {'quarantined', reason, at} | {'newer', record, version} | {'sealed'} | {'corrupt', what}
-- Before the start the head expires, so that an actor that dies then leaves nothing behind.
-- A caller only takes over what it can read: snapshot, tail and runs are checked before the owner changes. Without a cipher, the
-- caller can read no encrypted ones.

local UNSTARTED_LEASES, UNSTARTED_MS = 10, 2000
local seen, new, because, holder, conversation = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[7]
local lease_ms, readable, opens = integer(ARGV[5]), integer(ARGV[8]), ARGV[9] == '1'
if not lease_ms or not readable or new == '' then return {'corrupt', 'arguments'} end

local now = clock()
local h = redis.call('HMGET', head, 'token', 'epoch', 'holder', 'lease', 'busy', 'seq', 'snapshot', 'due', 'quarantine',
  'quarantined_at', 'strikes', 'paused', 'company', 'leaves')
if bad(h[2]) or bad(h[4]) or bad(h[6]) or (h[8] ~= '' and bad(h[8])) or bad(h[10]) or bad(h[11]) or bad(h[13]) then return {'corrupt', 'the head: a number is malformed'} end
local token, epoch, lease = h[1] or '', tonumber(h[2] or '0'), tonumber(h[4] or '0')
local seq = tonumber(h[6] or '0')
if seq == 0 and ARGV[6] ~= '1' then return {'missing'} end
if h[9] then return {'quarantined', h[9], tonumber(h[10] or '0')} end
if token ~= new then
  if token ~= seen then return {'moved', token, epoch, h[3] or ''} end
  if token ~= '' and h[5] == '1' and because == 'asked' and lease > now then return {'busy', lease - now} end
end

local found, why = contents(log, runs, seq, h[7], readable, opens)
if not found then return why end

-- Everything is checked: write.
if token ~= new then
  epoch = epoch + 1
  lease = now + lease_ms
  redis.call('HSET', head, 'token', new, 'epoch', string.format('%d', epoch), 'holder', holder,
    'lease', string.format('%d', lease))
  if seq == 0 then redis.call('PEXPIRE', head, math.max(UNSTARTED_LEASES * lease_ms, UNSTARTED_MS)) end
  if h[12] then
    redis.call('HDEL', head, 'paused')
    redis.call('ZREM', paused, h[12] .. '|' .. conversation)
  end
  attend(attention, conversation, h[5], lease, h[8], h[14])
end
return {'ok', epoch, now, seq, h[7] or '', found.records, found.tail, tonumber(h[11] or '0'), tonumber(h[13] or '0')}
