// Authenticates TCP connections: a job has a secret token, and both ends prove that they know it.
//
//   const Token token = Token::make();               // the job; writes text() to a private file
//   token.proof("job", nonces);                      // sent to the peer
//   token.proves("client", nonces, theirs);          // whether the peer knows the token too
//
// Both ends draw a nonce for each connection. A proof is a keyed hash (HMAC-SHA-512-256,
// libsodium's crypto_auth) of the prover's role and both nonces, so the secret is never sent, and a
// recorded proof cannot be replayed. The connection is not encrypted; `ssh -L` can encrypt it.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

namespace am::control {

// Nonces of the two ends of one TCP connection, as hexadecimal digits.
struct Nonces {
  std::string client;
  std::string job;
};

class Token {
 public:
  // Creates a random token.
  static Token make();
  // Reads the token from a file. Throws Error(kIo) if the file cannot be read or is accessible to
  // other users; Error(kFormat) if the file does not contain a token.
  static Token read(const std::filesystem::path& file);

  // Returns the secret itself, as 64 hexadecimal digits.
  std::string text() const;
  // Returns the proof by which `who`, "job" or "client", shows that it knows the token.
  std::string proof(std::string_view who, const Nonces& nonces) const;
  // Returns whether `proof` equals proof(who, nonces). Compares in constant time.
  bool proves(std::string_view who, const Nonces& nonces, std::string_view proof) const;

 private:
  Token() = default;

  std::array<unsigned char, 32> secret_ = {};
};

// Returns 64 random hexadecimal digits.
std::string draw_nonce();
// Returns whether the text has the form of draw_nonce(): 64 hexadecimal digits.
bool is_nonce(std::string_view text);

}  // namespace am::control
