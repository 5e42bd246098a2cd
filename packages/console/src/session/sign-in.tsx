import { Form, PasswordField, TextField } from "../ui/form.tsx";
import { CodeField, type CodeNeed, codeNeed } from "./code-field.tsx";
import { useSignIn } from "./session.tsx";
import { useState } from "react";

export function SignIn() {
  const signIn = useSignIn();
  const [need, setNeed] = useState<CodeNeed>("none");
  return (
    <section className="card sign-in" aria-label="Sign in">
      <h2>Sign in</h2>
      <p>Ask for quotes, make markets and hold balances.</p>
      <Form
        label="Sign in"
        action="Sign in"
        submit={async (values) => {
          try {
            await signIn({
              email: values.text("email"),
              password: values.text("password"),
              ...values.code(),
            });
          } catch (error) {
            setNeed(codeNeed(error, need));
            throw error;
          }
        }}
      >
        <TextField name="email" label="Email" type="email" autoComplete="username" required />
        <PasswordField />
        <CodeField need={need} />
      </Form>
      <p className="hint">
        The session is kept in this page only. Reloading the page signs you out.
      </p>
    </section>
  );
}
