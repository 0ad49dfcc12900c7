-- Read entries at places in logs, one after the other, until they weigh too much together.
--
-- KEYS  the log (stream) of each place
-- ARGV  1 how many bytes they may have   2 how many are read whatever they weigh   3... the place (seq) in each log
-- Returns {'ok', bytes, entry, ...}: of each place up to there the fields of its entry, 'none' where there is no entry, and 'type'
-- where the key is no stream.

local most, least = integer(ARGV[1]), integer(ARGV[2])
if not most or not least or #ARGV ~= #KEYS + 2 then return {'corrupt', 'arguments'} end
local out, bytes = {'ok', 0}, 0
for i, log in ipairs(KEYS) do
  local entry, size = 'type', 0
  if is(log, 'stream') then
    local id = ARGV[i + 2] .. '-0'
    local found = redis.call('XRANGE', log, id, id)[1]
    entry = found and found[2] or 'none'
    size = found and weight(found[2]) or 0
  end
  if i > least and bytes + size > most then break end
  bytes = bytes + size
  out[#out + 1] = entry
end
out[2] = bytes
return out
