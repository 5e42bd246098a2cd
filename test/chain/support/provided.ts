/** URL of an anvil that anvil.setup.ts started. */
export type AnvilUrl = string;

declare module "vitest" {
  interface ProvidedContext {
    /** One of each worker, because a test resets it. */
    anvilUrls: readonly AnvilUrl[];
    otherAnvilUrl: AnvilUrl;
    /** Bytecode of Gnosis Conditional Tokens, as deployed. Empty if npm has not installed it. */
    conditionalTokens: string;
  }
}
