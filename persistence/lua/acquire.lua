-- Take a conversation over: compare-and-set on the owner's token.
--
-- KEYS  head (hash)   log (stream)   runs (hash)   attention (sorted set)
--       paused (sorted set by name: 'agent|conversation')
-- ARGV  1 seen token   2 new token   3 because: asked|died|own   4 holder   5 lease in ms   6 create 0|1   7 conversation id
--       8 the record version that the caller reads   9 whether the caller has a cipher, 0|1
-- Returns {'ok', epoch, now, seq, snapshot, runs, entries, strikes, company} | {'missing'} | {'moved', token, epoch, holder}
--       | {'busy', ms left} | {'quarantined', reason, at} | {'newer', record, version} | {'sealed'} | {'corrupt', what}
-- Before the start the head expires, so that an actor that dies then leaves nothing behind.
-- A caller only takes over what it can read: snapshot, tail and runs are checked before the owner changes, also for encrypted
-- ones if the caller has no cipher.

local UNSTARTED_LEASES, UNSTARTED_MS = 10, 2000
local seen, new, because, holder, conversation = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[7]
local lease_ms, readable, opens = integer(ARGV[5]), integer(ARGV[8]), ARGV[9] == '1'
if not lease_ms or not readable or new == '' then return {'corrupt', 'arguments'} end

local now = clock()
local h = redis.call('HMGET', head, 'token', 'epoch', 'holder', 'lease', 'busy', 'seq', 'snapshot', 'due', 'quarantine',
  'quarantined_at', 'strikes', 'paused', 'company')
if bad(h[2]) or bad(h[4]) or bad(h[6]) or (h[8] ~= '' and bad(h[8])) or bad(h[10]) or bad(h[11]) or bad(h[13]) then return {'corrupt', 'the head: a number is malformed'} end
local token, epoch, lease = h[1] or '', tonumber(h[2] or '0'), tonumber(h[4] or '0')
local seq = tonumber(h[6] or '0')
if seq == 0 and ARGV[6] ~= '1' then return {'missing'} end
if h[9] then return {'quarantined', h[9], tonumber(h[10] or '0')} end
if token ~= new then
  if token ~= seen then return {'moved', token, epoch, h[3] or ''} end
  if token ~= '' and h[5] == '1' and because == 'asked' and lease > now then return {'busy', lease - now} end
end

local from = 1
if h[7] then
  local version = record_version(h[7])
  if version and version > readable then return {'newer', 'state', version} end
  if not opens and is_sealed(h[7]) then return {'sealed'} end
  local at = version and snapshot_seq(h[7])
  if not at or at > seq then return {'corrupt', 'the head: the snapshot'} end
  from = at + 1
end
local tail = redis.call('XRANGE', log, string.format('%d-0', from), '+')
if #tail ~= seq - from + 1 then
  return {'corrupt', string.format('the log has %d entries after %d, the head is at %d', #tail, from - 1, seq)}
end
for i, entry in ipairs(tail) do
  if entry[1] ~= string.format('%d-0', from + i - 1) then return {'corrupt', 'the log: the entry ' .. entry[1]} end
  local version = entry[2][1] == 'e' and record_version(entry[2][2])
  if not version then return {'corrupt', 'the log: the entry ' .. entry[1]} end
  if version > readable then return {'newer', 'log', version} end
  if not opens and is_sealed(entry[2][2]) then return {'sealed'} end
end
local records = redis.call('HGETALL', runs)
for i = 2, #records, 2 do
  if records[i] ~= 'R' and not string.match(records[i], '^[BCD]|[^|]*|') then return {'corrupt', 'the runs: a record'} end
  if not opens and is_sealed(string.match(records[i], '^D|[^|]*|(.*)$') or '') then return {'sealed'} end
end

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
  attend(attention, conversation, h[5], lease, h[8])
end
return {'ok', epoch, now, seq, h[7] or '', records, tail, tonumber(h[11] or '0'), tonumber(h[13] or '0')}
