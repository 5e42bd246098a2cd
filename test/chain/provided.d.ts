declare module "vitest" {
  interface ProvidedContext {
    /** Of the anvil that anvil.setup.ts started. */
    anvilUrl: string;
  }
}

export {};
