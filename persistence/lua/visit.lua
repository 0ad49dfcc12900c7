-- Read a conversation without an owner, as a guest judges it. Nothing is written.
--
-- KEYS  head (hash)   log (stream)   runs (hash: see claim.lua)
-- ARGV  1 the record version that the caller reads   2 whether the caller has a cipher, 0|1   3 how many bytes may be read
-- Returns {'visit', now, seq, snapshot, append id, entries} | {'no'} | {'corrupt', what}

local readable, most = integer(ARGV[1]), integer(ARGV[3])
if not readable or not most then return {'corrupt', 'arguments'} end
local found = visited(head, log, runs, readable, ARGV[2] == '1')
if not found then return {'no'} end
local bytes = #found[4]
for _, entry in ipairs(found[6]) do bytes = bytes + weight(entry[2]) end
return bytes <= most and found or {'no'}
