/** A node of a busy chain, in a thread of its own: every block has foreign USDC transfers. */
import { createServer } from "node:http";
import { parentPort, workerData } from "node:worker_threads";

const { usdc, transfersPerBlock } = workerData;
const TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
const word = (value) => `0x${value.toString(16).padStart(64, "0")}`;
const hex = (value) => `0x${value.toString(16)}`;
const hashOf = (block) => word(BigInt(block) + 10n ** 60n);
const receiverOf = (block, index) => word((BigInt(block) * 7_919n + BigInt(index) + 1n) << 90n);

function blockOf(number) {
  return {
    number: hex(number),
    hash: hashOf(number),
    parentHash: hashOf(number - 1),
    timestamp: hex(number),
    baseFeePerGas: "0x1",
    gasLimit: "0x1",
    gasUsed: "0x1",
    size: "0x1",
    difficulty: "0x0",
    transactions: [],
  };
}

function logOf(block, index) {
  return {
    address: usdc,
    topics: [TRANSFER, word(5n), receiverOf(block, index)],
    data: word(1_000_000n),
    blockNumber: hex(block),
    blockHash: hashOf(block),
    transactionHash: word(BigInt(block * 1_000 + index)),
    transactionIndex: hex(index),
    logIndex: hex(index),
    removed: false,
  };
}

function resultOf({ method, params }) {
  if (method === "eth_getBlockByNumber") return blockOf(Number(params[0]));
  if (method !== "eth_getLogs") throw new Error(`${method} is not served`);
  const logs = [];
  for (let block = Number(params[0].fromBlock); block <= Number(params[0].toBlock); block++)
    for (let index = 0; index < transfersPerBlock; index++) logs.push(logOf(block, index));
  return logs;
}

const server = createServer((request, response) => {
  let body = "";
  request.on("data", (part) => (body += part));
  request.on("end", () => {
    const call = JSON.parse(body);
    const reply = (one) => ({ jsonrpc: "2.0", id: one.id, result: resultOf(one) });
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(Array.isArray(call) ? call.map(reply) : reply(call)));
  });
});
server.listen(0, "127.0.0.1", () => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  parentPort.postMessage(server.address().port);
});
